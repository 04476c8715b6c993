"""
Kernels of interval attention: one autograd function that saves its inputs, and cuts blocks again in the backward pass.

A composition of differentiable operators would save the copies of the keys and all scores. In a chunk of `n` blocks of
`b` queries and `c` keys, matrices are `(H n, b, D)` and so on, one a head and block. Those of a head follow one
another: they are one matrix to what is the same for all blocks.
"""

from dataclasses import dataclass

import torch
from torch import nn

from .interval_blocks_docmt import Chunk
from .interval_plan_docmt import IntervalPlan


# share of the distances between a block and its keys that must occur for the products to be made with all of them
WIDE_SHARE = 0.7

Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor | None, torch.Tensor | None]


@dataclass
class IntervalTask:
    """What a call computes, apart from the tensors query, key, value, relative table and relative query."""

    plan: IntervalPlan
    scaling: float
    zero_row: int
    dropout: float

    def fused_on_cpu(self, query: torch.Tensor, value: torch.Tensor, table: torch.Tensor | None) -> bool:
        """
        Whether PyTorch's fused kernel for CPUs takes the blocks.

        It is the faster one in float32, and 2.5 to 3 times slower than products of matrices in bfloat16. It has no
        gradient of a bias, which a relative term would be, no dropout, and one head dimension.
        """
        return (
            query.device.type == "cpu"
            and query.dtype in (torch.float32, torch.float64)
            and table is None
            and self.dropout == 0
            and query.shape[-1] == value.shape[-1]
        )


class IntervalAttentionFunction(torch.autograd.Function):
    """Arguments: query, key, value, table or None, relative query or None, `IntervalTask`."""

    @staticmethod
    def forward(ctx, query, key, value, table, relative_query, task: IntervalTask):
        inputs = (query, key, value, table, relative_query)
        fused = task.fused_on_cpu(query, value, table)
        # the chunks leave out queries that see nothing
        make = query.new_empty if task.plan.is_full else query.new_zeros
        output = make((query.shape[0], query.shape[1], value.shape[2]))
        tables = None if table is None else _DistanceTables(table, task.zero_row)
        by_chunk: list[torch.Tensor] = []  # log-sum-exp of the fused kernel, or the mask of dropout
        with torch.autocast(query.device.type, enabled=False):
            for chunk in task.plan.chunks:
                if fused:
                    blocks, normalizer = _fused_forward(query, key, value, chunk, task.scaling)
                    by_chunk.append(normalizer)
                else:
                    matrices = _Matrices(inputs, chunk, task, tables)
                    weights = matrices.weights()
                    if task.dropout:
                        by_chunk.append(torch.rand_like(weights, dtype=torch.float32) >= task.dropout)
                        weights = _drop(weights, by_chunk[-1], task.dropout)
                    blocks = _heads_last(torch.bmm(weights, matrices.value), chunk.num_blocks)
                chunk.put_queries(output, blocks)
        ctx.task, ctx.fused = task, fused
        ctx.save_for_backward(*inputs, output if fused else None, *by_chunk)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        query, key, value, table, relative_query, output, *by_chunk = ctx.saved_tensors
        inputs, task = (query, key, value, table, relative_query), ctx.task
        with torch.autocast(query.device.type, enabled=False):
            if torch.is_grad_enabled():  # the gradient will be differentiated again
                masks = by_chunk if task.dropout else None
                return *_differentiable_gradients(inputs, grad_output, task, masks, ctx.needs_input_grad), None
            gradients = _Gradients(inputs, task.zero_row, task.plan.is_full)
            for index, chunk in enumerate(task.plan.chunks):
                if ctx.fused:
                    states = (query, key, value, output, grad_output)
                    _fused_backward(states, by_chunk[index], chunk, task.scaling, gradients)
                else:
                    mask = by_chunk[index] if task.dropout else None
                    _Matrices(inputs, chunk, task, gradients.tables).backward(grad_output, mask, gradients)
        return *gradients.results(inputs), None


class _Gradients:
    """Sums of gradients; in float32 where a key of many blocks would lose too much in the dtype of the inputs."""

    def __init__(self, inputs: Inputs, zero_row: int, is_full: bool):
        query, key, value, table, relative_query = inputs
        dtype = torch.promote_types(query.dtype, torch.float32)
        make = torch.empty_like if is_full else torch.zeros_like
        self.query = make(query)
        self.key, self.value = torch.zeros_like(key, dtype=dtype), torch.zeros_like(value, dtype=dtype)
        self.tables = None if table is None else _DistanceTables(table, zero_row)
        self.relative_query = None if relative_query is None else make(relative_query)

    def results(self, inputs: Inputs) -> tuple[torch.Tensor | None, ...]:
        """In the order and the dtype of the inputs."""
        of_table = None if self.tables is None else self.tables.gradient()
        sums = (self.query, self.key, self.value, of_table, self.relative_query)
        return tuple(
            None if total is None or x is None else total.to(x.dtype) for total, x in zip(sums, inputs, strict=True)
        )


def _fused_forward(query, key, value, chunk: Chunk, scaling: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Blocks of output `(n, b, H, D)`, and log-sum-exp of the logits."""
    output, normalizer = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        chunk.queries(query).transpose(1, 2),
        chunk.keys(key).transpose(1, 2),
        chunk.keys(value).transpose(1, 2),
        attn_mask=None if chunk.bias is None else chunk.bias.to(query.dtype),
        scale=scaling,
    )
    output = output.transpose(1, 2)
    return output if chunk.dead is None else output.masked_fill(chunk.dead.transpose(1, 2), 0.0), normalizer


def _fused_backward(states, normalizer: torch.Tensor, chunk: Chunk, scaling: float, gradients: _Gradients) -> None:
    query, key, value, output, grad_output = states
    grad_blocks = chunk.queries(grad_output)
    if chunk.dead is not None:
        grad_blocks = grad_blocks.masked_fill(chunk.dead.transpose(1, 2), 0.0)
    of_query, of_key, of_value = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
        grad_blocks.transpose(1, 2),
        chunk.queries(query).transpose(1, 2),
        chunk.keys(key).transpose(1, 2),
        chunk.keys(value).transpose(1, 2),
        chunk.queries(output).transpose(1, 2),
        normalizer,
        0.0,
        False,
        attn_mask=None if chunk.bias is None else chunk.bias.to(query.dtype),
        scale=scaling,
    )
    chunk.put_queries(gradients.query, of_query.transpose(1, 2))
    chunk.add_keys(gradients.key, of_key.transpose(1, 2))
    chunk.add_keys(gradients.value, of_value.transpose(1, 2))


def stable_softmax(scores: torch.Tensor) -> torch.Tensor:
    """Softmax over keys, in float32 where the scores are less precise."""
    return scores.softmax(dim=-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(scores.dtype)


def table_rows(largest: int, count: int, zero_row: int, table: torch.Tensor) -> torch.Tensor:
    """Rows of the distances `largest`, `largest - 1`, ...: the order in which they meet the keys of a query."""
    distances = largest - torch.arange(count, device=table.device)
    return (distances + zero_row).clamp(0, table.shape[0] - 1)


def _heads_first(blocks: torch.Tensor) -> torch.Tensor:
    """Blocks `(n, b, H, D)` as matrices `(H n, b, D)`; contiguous, as small products are fastest so."""
    return blocks.permute(2, 0, 1, 3).contiguous().flatten(0, 1)


def _heads_last(matrices: torch.Tensor, num_blocks: int) -> torch.Tensor:
    return matrices.unflatten(0, (-1, num_blocks)).permute(1, 2, 0, 3)  # (n, b, H, D)


def _drop(weights: torch.Tensor, kept: torch.Tensor, dropout: float) -> torch.Tensor:
    return weights * kept.to(weights.dtype).mul_(1 / (1 - dropout))


class _DistanceTable:
    """Rows of a relative table in the order that a chunk needs, and the sum of their gradients."""

    def __init__(self, table: torch.Tensor, zero_row: int, largest: int, count: int):
        # some rows more than there are distances, as products with odd numbers of columns are slower
        rows = table_rows(largest, -(-count // 16) * 16, zero_row, table)
        self.is_shared = table.dim() == 2
        matrix = table.index_select(0, rows)
        self.padded_matrix = matrix if self.is_shared else matrix.transpose(0, 1).contiguous()  # (r', D) or (H, r', D)
        self.matrix = self.padded_matrix[..., :count, :]
        self.rows = rows[:count]  # (r,)
        self.gradient: torch.Tensor | None = None  # of `matrix`

    def logits(self, query: torch.Tensor, num_blocks: int) -> torch.Tensor:
        """Products of queries `(H n, b, D)` with the rows, `(H n, b, r')`; columns beyond r are to be left out."""
        by_distance = torch.matmul(self._rows(query, num_blocks), self.padded_matrix.transpose(-1, -2))
        return by_distance.view(*query.shape[:2], -1)

    def backward(self, of_logits: torch.Tensor, query: torch.Tensor, of_query: torch.Tensor, num_blocks: int) -> None:
        """With the gradient of products, `(H n, b, r)`, add to that of the queries, `(H n, b, D)`, and of the rows."""
        states = (of_logits.contiguous(), query, of_query)
        of_logits, query, of_query = (self._rows(matrices, num_blocks) for matrices in states)
        columns = of_logits.transpose(-1, -2)
        dtype = torch.promote_types(query.dtype, torch.float32)
        if self.gradient is None:
            self.gradient = self.matrix.new_zeros(self.matrix.shape, dtype=dtype)
        if self.is_shared:
            of_query.addmm_(of_logits, self.matrix)
        else:
            of_query.baddbmm_(of_logits, self.matrix)
        if query.dtype != dtype:
            self.gradient += torch.matmul(columns, query)
        elif self.is_shared:
            self.gradient.addmm_(columns, query)
        else:
            self.gradient.baddbmm_(columns, query)

    def _rows(self, matrices: torch.Tensor, num_blocks: int) -> torch.Tensor:
        """`(H n, b, ...)` as one matrix, `(H n b, ...)`, or one a head, `(H, n b, ...)`."""
        shape = (-1,) if self.is_shared else (-1, num_blocks * matrices.shape[1])
        return matrices.view(*shape, matrices.shape[2])

    def add_to(self, of_table: torch.Tensor) -> None:
        """Add the sum of gradients to that of the whole table."""
        assert self.gradient is not None
        of_table.index_add_(0, self.rows, self.gradient if self.is_shared else self.gradient.transpose(0, 1))


class _DistanceTables:
    """The tables of all chunks; those inside of a window share one."""

    def __init__(self, table: torch.Tensor, zero_row: int):
        self.table, self.zero_row = table, zero_row
        self.found: dict[tuple[int, int], _DistanceTable] = {}

    def of(self, largest: int, count: int) -> _DistanceTable:
        """That of the distances from `largest` down."""
        name = (largest, count)
        if name not in self.found:
            self.found[name] = _DistanceTable(self.table, self.zero_row, *name)
        return self.found[name]

    def gradient(self) -> torch.Tensor:
        """Gradient of the whole table."""
        total = torch.zeros_like(self.table, dtype=torch.promote_types(self.table.dtype, torch.float32))
        for part in self.found.values():
            part.add_to(total)
        return total


class _Matrices:
    """
    One chunk as matrices, and attention as their products.

    `weights()` can be differentiated only with `shift=False`, see `_RelativeLogits`.
    """

    def __init__(
        self, inputs: Inputs, chunk: Chunk, task: IntervalTask, tables: _DistanceTables | None, shift: bool = True
    ):
        query, key, value, _, relative_query = inputs
        self.chunk, self.task = chunk, task
        self.query = _heads_first(chunk.queries(query)) * task.scaling  # (H n, b, D)
        self.key = _heads_first(chunk.keys(key))  # (H n, c, D)
        self.value = _heads_first(chunk.keys(value))  # (H n, c, D_v)
        self.relative = None
        if tables is not None:
            own = None if relative_query is None else _heads_first(chunk.queries(relative_query)) * task.scaling
            self.relative = _relative_logits(self.query if own is None else own, tables, chunk, task, shift)
            self.has_own_query = own is not None

    def weights(self) -> torch.Tensor:
        """Softmax of the scores, `(H n, b, c)`."""
        n = self.chunk.num_blocks
        scores = torch.bmm(self.query, self.key.transpose(1, 2))
        if self.relative is not None:
            scores = self.relative.add_to(scores)
        if self.chunk.bias is not None:
            scores.unflatten(0, (-1, n)).add_(self.chunk.bias.squeeze(1))
        weights = stable_softmax(scores)
        if self.chunk.dead is not None:
            weights = weights.unflatten(0, (-1, n)).masked_fill(self.chunk.dead.squeeze(1), 0.0).flatten(0, 1)
        return weights

    def backward(self, grad_output: torch.Tensor, kept: torch.Tensor | None, gradients: _Gradients) -> None:
        """Recompute the weights, and add the gradients of this chunk."""
        chunk, n, scaling = self.chunk, self.chunk.num_blocks, self.task.scaling
        grad_blocks = _heads_first(chunk.queries(grad_output))
        weights = self.weights()
        used = weights if kept is None else _drop(weights, kept, self.task.dropout)
        chunk.add_keys(gradients.value, _heads_last(torch.bmm(used.transpose(1, 2), grad_blocks), n))
        of_weights = torch.bmm(grad_blocks, self.value.transpose(1, 2))
        if kept is not None:
            of_weights = _drop(of_weights, kept, self.task.dropout)
        of_scores = torch._softmax_backward_data(of_weights, weights, -1, weights.dtype)
        chunk.add_keys(gradients.key, _heads_last(torch.bmm(of_scores.transpose(1, 2), self.query), n))
        of_query = torch.bmm(of_scores, self.key)
        if self.relative is not None:
            of_relative_query = torch.zeros_like(of_query) if self.has_own_query else of_query
            self.relative.backward(of_scores, of_relative_query)
            if gradients.relative_query is not None:
                chunk.put_queries(gradients.relative_query, _heads_last(of_relative_query.mul_(scaling), n))
        chunk.put_queries(gradients.query, _heads_last(of_query.mul_(scaling), n))


def _relative_logits(
    query: torch.Tensor, tables: _DistanceTables, chunk: Chunk, task: IntervalTask, shift: bool
) -> "_RelativeLogits | _WideRelativeLogits":
    """The logits of the distances in a chunk, in the form that is the cheaper one."""
    all_distances = chunk.block_size + chunk.key_width - 1
    if shift and chunk.skew is not None and chunk.relative_count >= WIDE_SHARE * all_distances:
        return _WideRelativeLogits(query, tables, chunk)
    return _RelativeLogits(query, tables, chunk, task, shift)


class _WideRelativeLogits:
    """
    Logits of the distances in one chunk whose queries see most of the keys that the block reads.

    Products with the rows of all distances between the block and its keys come as one column a distance, largest
    first, `(H n, b, r)`. Query m + 1 is one position behind query m, so its logits begin one column earlier: a view
    with rows one shorter than they are puts them under their keys, and nothing is copied.
    """

    def __init__(self, query: torch.Tensor, tables: _DistanceTables, chunk: Chunk):
        assert chunk.skew is not None
        self.query, self.chunk = query, chunk
        largest = chunk.skew + chunk.relative_max + chunk.block_size - 1
        self.table = tables.of(largest, chunk.block_size + chunk.key_width - 1)

    def add_to(self, scores: torch.Tensor) -> torch.Tensor:
        """Scores `(H n, b, c)` with the logits added, in place."""
        by_distance = self.table.logits(self.query, self.chunk.num_blocks)
        return scores.add_(self._under_keys(by_distance))

    def backward(self, of_scores: torch.Tensor, of_query: torch.Tensor) -> None:
        """Add to the gradient of the query, `(H n, b, D)`, and to that of the table."""
        of_distance = of_scores.new_zeros(*of_scores.shape[:2], len(self.table.rows))  # (H n, b, r)
        self._under_keys(of_distance).copy_(of_scores)
        self.table.backward(of_distance, self.query, of_query, self.chunk.num_blocks)

    def _under_keys(self, by_distance: torch.Tensor) -> torch.Tensor:
        """View `(H n, b, c)` of contiguous columns `(H n, b, r)`: entry (m, o) is column `b - 1 - m + o` of row m."""
        batch, size, width = by_distance.shape
        shape = (batch, size, self.chunk.key_width)
        return by_distance.as_strided(shape, (size * width, width - 1, 1), by_distance.storage_offset() + size - 1)


class _RelativeLogits:
    """
    Logits of the distances in one chunk.

    Products with the rows of the table come as one column a distance, `(H n, b, r)`. Where query m + 1 of each block
    is one position behind query m, its columns belong one key further: a view of the scores whose row m begins m
    columns later takes them as they are, and gives their gradients back. Elsewhere, and where operators must be
    differentiable, they are gathered.
    """

    def __init__(self, query: torch.Tensor, tables: _DistanceTables, chunk: Chunk, task: IntervalTask, shift: bool):
        self.query, self.chunk, self.plan = query, chunk, task.plan
        self.skew = chunk.skew if shift else None
        self.table = tables.of(chunk.relative_max, chunk.relative_count)

    def add_to(self, scores: torch.Tensor) -> torch.Tensor:
        """Scores `(H n, b, c)` with the logits added, in place where it can be."""
        by_distance = self.table.logits(self.query, self.chunk.num_blocks)  # (H n, b, r')
        by_distance = by_distance[:, :, : self.chunk.relative_count]
        if self.skew is None:
            by_block = by_distance.unflatten(0, (-1, self.chunk.num_blocks))
            return scores + by_block.gather(3, self._distance_index(scores)).flatten(0, 1)
        left, right = self._margins(self.skew)
        if left == right == 0:
            self._shifted(scores, self.skew).add_(by_distance)
            return scores
        width = scores.shape[2]
        wide = scores.new_zeros(*scores.shape[:2], left + width + right)
        self._shifted(wide, left + self.skew).copy_(by_distance)
        return scores.add_(wide[:, :, left : left + width])

    def backward(self, of_scores: torch.Tensor, of_query: torch.Tensor) -> None:
        """Add to the gradient of the query, `(H n, b, D)`, and to that of the table."""
        if self.skew is None:
            by_block = of_scores.unflatten(0, (-1, self.chunk.num_blocks))
            of_distance = by_block.new_zeros(*by_block.shape[:3], self.chunk.relative_count)
            of_distance = of_distance.scatter_add_(3, self._distance_index(of_scores), by_block).flatten(0, 1)
        else:
            left, right = self._margins(self.skew)
            wide = nn.functional.pad(of_scores, (left, right)) if left or right else of_scores
            of_distance = self._shifted(wide, left + self.skew)
        self.table.backward(of_distance, self.query, of_query, self.chunk.num_blocks)

    def _margins(self, skew: int) -> tuple[int, int]:
        """Columns that the scores need on the left and on the right so that no shifted row leaves them."""
        end = skew + self.chunk.block_size - 1 + self.chunk.relative_count
        return max(0, -skew), max(0, end - self.chunk.key_width)

    def _shifted(self, scores: torch.Tensor, first: int) -> torch.Tensor:
        """View `(H n, b, r)` of contiguous scores: entry (m, o) is column `first + m + o` of row m."""
        batch, size, width = scores.shape
        shape = (batch, size, self.chunk.relative_count)
        return scores.as_strided(shape, (size * width, width + 1, 1), scores.storage_offset() + first)

    def _distance_index(self, scores: torch.Tensor) -> torch.Tensor:
        """Column of each pair in the products with the table, `(H, n, b, c)`; any column where it is masked."""
        chunk, device = self.chunk, scores.device
        positions = self.plan.query_positions[chunk.query_rows(device)]  # (n, b)
        index = chunk.relative_max - (positions[:, :, None] - chunk.key_rows(device)[:, None, :])
        index = index.clamp(0, chunk.relative_count - 1)
        return index.expand(scores.shape[0] // chunk.num_blocks, -1, -1, -1)


def _differentiable_gradients(
    inputs: Inputs, grad_output: torch.Tensor, task: IntervalTask, masks: list[torch.Tensor] | None, needed
) -> tuple[torch.Tensor | None, ...]:
    """Gradients that can be differentiated again."""
    # aliases: where one tensor is both query and key, each role has its own gradient
    query, key, value, table, relative_query = (x if x is None else x.view_as(x) for x in inputs)
    assert query is not None and key is not None and value is not None
    aliases = (query, key, value, table, relative_query)
    output = composed_interval_attention(aliases, task, masks)
    wanted = [x for x, need in zip(aliases, needed, strict=False) if need]
    found = iter(torch.autograd.grad(output, wanted, grad_output, create_graph=True, allow_unused=True))
    return tuple(next(found) if need else None for _, need in zip(aliases, needed, strict=False))


def composed_interval_attention(
    inputs: Inputs, task: IntervalTask, masks: list[torch.Tensor] | None = None
) -> torch.Tensor:
    """
    The same blocks as a composition of differentiable operators, for gradients of gradients.

    Args:
        inputs (`tuple`): Query, key, value, table or `None`, relative query or `None`.
        task (`IntervalTask`): What to compute.
        masks (`list[torch.Tensor]`, *optional*): Masks of dropout, by chunk.
    """
    query, _, value, table, _ = inputs
    tables = None if table is None else _DistanceTables(table, task.zero_row)
    output = query.new_zeros(query.shape[0], query.shape[1], value.shape[2])
    for index, chunk in enumerate(task.plan.chunks):
        # indices instead of views: gradients of overlapping views cannot be differentiated again
        indexed = chunk.as_indexed(query.device)
        matrices = _Matrices(inputs, indexed, task, tables, shift=False)
        weights = matrices.weights()
        if masks is not None:
            weights = _drop(weights, masks[index], task.dropout)
        blocks = _heads_last(torch.bmm(weights, matrices.value), chunk.num_blocks)
        output = output.index_copy(0, *indexed.real_queries(blocks))
    return output
