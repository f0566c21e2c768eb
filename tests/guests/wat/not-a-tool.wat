;; A good component that exports a module and a resource, and no function that could be called with JSON.
(component
  (core module $main
    (func (export "answer") (result i32) (i32.const 42)))
  (export "main" (core module $main))
  (type $thing (resource (rep i32)))
  (export "thing" (type $thing)))
