"""The engines that come with enginehost, registered as a stranger's plugin would register its own."""
