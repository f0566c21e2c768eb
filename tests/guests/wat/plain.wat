;; Plain functions, in an interface and at the root, of no world that toolcell knows.
(component
  (core module $main
    (memory (export "memory") 3)
    (data (i32.const 64) "it was not wanted")

    ;; Hands out one block after the other, and takes more memory when the last page is full.
    (global $free (mut i32) (i32.const 8192))
    (func (export "realloc") (param $old i32) (param $old_size i32) (param $align i32) (param $size i32) (result i32)
      (local $start i32)
      (local.set $start (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
      (global.set $free (i32.add (local.get $start) (local.get $size)))
      (block $fits
        (br_if $fits (i32.le_u (global.get $free) (i32.shl (memory.size) (i32.const 16))))
        (br_if $fits (i32.ne
          (memory.grow (i32.add (i32.shr_u (local.get $size) (i32.const 16)) (i32.const 2)))
          (i32.const -1)))
        unreachable)
      (local.get $start))

    ;; Returns the bytes that it got.
    (func (export "echo") (param $text i32) (param $length i32) (result i32)
      (i32.store (i32.const 16) (local.get $text))
      (i32.store (i32.const 20) (local.get $length))
      (i32.const 16))

    (func (export "add") (param $a i64) (param $some i32) (param $b i32) (result i64)
      (i64.add (local.get $a) (i64.extend_i32_s (select (local.get $b) (i32.const 0) (local.get $some)))))

    ;; At 32, a result: the case, then 7, or the text at 64.
    (func (export "check") (param $wanted i32) (result i32)
      (i32.store8 (i32.const 32) (i32.eqz (local.get $wanted)))
      (i32.store (i32.const 36) (select (i32.const 7) (i32.const 64) (local.get $wanted)))
      (i32.store (i32.const 40) (i32.const 17))
      (i32.const 32))

    ;; As many zeros as its memory holds.
    (func (export "flood") (param $length i32) (result i32)
      (i32.store (i32.const 16) (i32.const 0))
      (i32.store (i32.const 20) (local.get $length))
      (i32.const 16))

    (func (export "nothing"))
    (func (export "spin") (loop $forever (br $forever)))
    (func (export "trap") unreachable)
    (func (export "not-text") (result i32)
      (i32.store8 (i32.const 128) (i32.const 0xff))
      (i32.store (i32.const 16) (i32.const 128))
      (i32.store (i32.const 20) (i32.const 1))
      (i32.const 16)))
  (core instance $main (instantiate $main))

  (func $echo (param "text" string) (result string)
    (canon lift (core func $main "echo") (memory (core memory $main "memory")) (realloc (core func $main "realloc"))))
  (func $bytes (param "bytes" (list u8)) (result (list u8))
    (canon lift (core func $main "echo") (memory (core memory $main "memory")) (realloc (core func $main "realloc"))))
  (func $add (param "a" u64) (param "b" (option s32)) (result u64) (canon lift (core func $main "add")))
  (func $check (param "wanted" bool) (result (result u32 (error string)))
    (canon lift (core func $main "check") (memory (core memory $main "memory"))))
  (func $flood (param "length" u32) (result (list bool))
    (canon lift (core func $main "flood") (memory (core memory $main "memory"))))
  (func $not-text (result string)
    (canon lift (core func $main "not-text") (memory (core memory $main "memory"))))
  (func $nothing (canon lift (core func $main "nothing")))
  (func $spin (canon lift (core func $main "spin")))
  (func $trap (canon lift (core func $main "trap")))

  (instance $tools
    (export "echo" (func $echo))
    (export "bytes" (func $bytes))
    (export "add" (func $add))
    (export "check" (func $check))
    (export "flood" (func $flood))
    (export "not-text" (func $not-text)))
  (export "acme:plain/tools@0.1.0" (instance $tools))
  (export "nothing" (func $nothing))
  (export "spin" (func $spin))
  (export "trap" (func $trap))
  (export "init" (func $nothing)))
