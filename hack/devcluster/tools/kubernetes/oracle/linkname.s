// An assembly file in the package lets it declare functions without a body.
