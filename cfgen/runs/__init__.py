"""Models on disk: run folders, loading, exports, cards."""
