// Lets the package declare a function that the runtime has.
