"""Python imports this when it starts, in each process that the tests start."""

import declare_torchvision  # noqa: F401
import freeze_torch  # noqa: F401
