"""How a container comes to see the cards it was given: a module for each manufacturer, all listed in `registry`."""
