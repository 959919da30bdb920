"""What ``sgframe doctor`` looks at, a module for each kind of thing; each gives Findings and starts nothing that stays."""
