"""What runs elsewhere than where it is asked for."""
