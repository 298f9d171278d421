"""The mathematics: programs in the notation of the papers."""
