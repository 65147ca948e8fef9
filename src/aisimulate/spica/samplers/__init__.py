"""The samplers that come with the package; each passes the contract suite of `BranchSampler`."""
