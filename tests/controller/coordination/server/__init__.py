"""Tests of ZooKeeper's protocol over the embedded tree."""
