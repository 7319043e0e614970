"""What noisy sums say of the numbers behind them; knows no model and no file."""
