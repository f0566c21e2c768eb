;; A good component that exports no interface of a tool.
(component
  (core module $main
    (func (export "answer") (result i32) (i32.const 42)))
  (core instance $main (instantiate $main))
  (func (export "answer") (result u32) (canon lift (core func $main "answer"))))
