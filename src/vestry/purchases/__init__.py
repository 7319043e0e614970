"""What has been bought: noisy integers, their files, and the one path from a charge to them."""
