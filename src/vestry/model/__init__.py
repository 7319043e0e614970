"""What a model is to the rest of the package: what is asked, what is prepared for it, and where models are found."""
