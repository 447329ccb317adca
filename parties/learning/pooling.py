"""Max-pooling on the processor, in a third of the time that torch takes for it: with the same bits, both ways."""

from typing import Any

from tacit.parties.learning.backend import Tensor, nn, torch

__all__ = ["MaxPool"]

_WORTH = 20_000
"""The numbers from which it is faster."""

_aten = torch.ops.aten


class MaxPool(nn.MaxPool2d):
    """The largest value of each window of `size` x `size` values, at the step `size`; the first of equal ones."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self._window = [size, size]

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu" or x.dim() != 4 or x.numel() < _WORTH:
            return super().forward(x)
        pooled: Tensor = _ByChannels.apply(x, self._window)
        return pooled


class _ByChannels(torch.autograd.Function):
    """Where channels lie side by side torch compares many at once; one after the other its branches are guesses."""

    @staticmethod
    def forward(context: Any, x: Tensor, window: list[int]) -> Tensor:
        pooled, places = _aten.max_pool2d_with_indices(x.contiguous(memory_format=torch.channels_last), window)
        context.save_for_backward(x, places.contiguous())
        context.window = window
        # With the strides, too, by which torch would choose what computes the next layer.
        found: Tensor = pooled.clone(memory_format=torch.contiguous_format)
        return found

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        x, places = context.saved_tensors
        window = context.window
        back = _aten.max_pool2d_with_indices_backward
        return back(gradients[0].contiguous(), x, window, window, [0, 0], [1, 1], False, places), None
