"""Pure functions: tensors or arrays in, numbers out. Nothing here knows a trainer, a file or a clock."""
