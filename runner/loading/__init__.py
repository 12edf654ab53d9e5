"""DataLoader2: its epochs, its position, its reports, and batches for training."""
