"""What the demo does, apart from its page: read texts, translate, compare, look at attention, write downloads."""
