#!/usr/bin/env python3
"""Runs everyday scripts with bash and with the tool, and prints where they differ: output, exit code, files.

    toolcell build example-tools/shell
    example-tools/shell/compare.py [toolcell]
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
FILES = {
    "a.csv": "name,team,ms\nada,shop,12\nbob,search,7\ncyd,shop,30\nada,shop,5\n",
    "b.csv": "name,team,ms\ndan,search,9\neve,shop,1\n",
    "log.txt": "".join(f"2026-11-{n:02} {'ERROR' if n % 3 == 0 else 'INFO'} step {n} took {n * 7} ms\n" for n in range(1, 29)),
    "data.json": '{"items": [{"n": 1, "tag": "x"}, {"n": 2, "tag": "y"}, {"n": 3, "tag": "x"}]}\n',
    "src/main.c": "int main(void) {\n\treturn 0; // odd\n}\n",
    "src/lib/util.c": "int twice(int n) {\n\treturn 2 * n;\n}\n",
    "with space.txt": "one two\n",
}
CASES = r"""
cat *.csv | sort | uniq -c | sort -rn | head
cut -d, -f2 a.csv | sort -u
awk -F, 'NR > 1 { sum[$2] += $3 } END { for (t in sum) print t, sum[t] }' a.csv | sort
grep -c ERROR log.txt; grep -n 'step 1[0-3]' log.txt | tail -2
grep -rn odd src; grep -rl return src | sort
grep -oE '[0-9]+ ms' log.txt | sed 's/ ms//' | paste -sd+ | bc
sed -n '2,4p;$p' log.txt; sed 's/INFO/info/g; /ERROR/d' log.txt | head -3
sed -i 's/shop/store/' a.csv && cat a.csv && ls
find . -name '*.c' | sort | xargs wc -l
find . -type f -name '*.txt' -print0 | sort -z | xargs -0 -n1 basename
find . -type f -size +1k -o -name '*.json' | sort
ls; ls -1 src; ls -d */
ls -l a.csv | awk '{print $1, $5}'
head -n 2 a.csv b.csv; tail -n +5 a.csv
wc log.txt; wc -c < log.txt
tr a-z A-Z < b.csv; tr -d '\n' < b.csv | tr -s , ' '
sort -t, -k3 -n a.csv | head -3; sort -k2,2 -k1,1r b.csv
for f in *.csv; do echo "$f: $(($(wc -l < "$f") - 1))"; done
while IFS=, read -r name team ms; do [ "$team" = shop ] && echo "$name=$ms"; done < a.csv
declare -A n; while IFS=, read -r _ t _; do n[$t]=$((${n[$t]:-0} + 1)); done < a.csv; for t in "${!n[@]}"; do echo "$t ${n[$t]}"; done | sort
f() { local x=$1; echo "${x^^} ${x%.*} ${x##*.} ${#x} ${x/a/A}"; return 3; }; f data.tar; echo $?
a=(one "two three" four); a+=(five); printf '<%s>' "${a[@]:1:2}" "${#a[@]}"; echo
cat <<END > out.txt; cat out.txt
user: $(echo ada) $((6 * 7))
END
cat <<'END'
literal $HOME `x`
END
set -euo pipefail; false | true; echo never
set -e; if false; then :; fi; false || true; echo still; false; echo never
trap 'echo bye' EXIT; echo hi; exit 4
x=5; case $x in [0-4]) echo low;; 5|6) echo mid;; *) echo high;; esac; [[ abc =~ ^a(.)c$ ]] && echo "${BASH_REMATCH[1]}"
printf '%5.2f|%-6s|%04d|%x\n' 3.14159 ab 42 255
echo {a,b}{1..3} {01..03}; echo ~+ > /dev/null; echo "$((2**10)) $((7 / 2)) $((-7 % 3))"
diff a.csv b.csv; echo $?
diff -u a.csv <(sed 's/ada/Ada/' a.csv) | tail -n +3
comm -12 <(sort a.csv) <(sort b.csv); join -t, <(sort a.csv) <(sort a.csv) | head -2
jq -r '.items[] | select(.tag == "x") | .n' data.json; jq '.items | length' data.json
jq -c '.items | group_by(.tag) | map({(.[0].tag): length}) | add' data.json
mkdir -p x/y && touch x/y/z && mv x/y/z x/w && rmdir x/y && ls -R x && rm -r x
cp -r src copy && find copy -type f | sort && rm -rf copy && ls copy
ln -s a.csv link && cat link | head -1 && readlink link && rm link
tar czf src.tgz src && tar tzf src.tgz | sort && rm -r src && tar xzf src.tgz && find src -type f | sort
gzip -k a.csv && zcat a.csv.gz | head -1 && gunzip -c a.csv.gz | md5sum
sha256sum a.csv; base64 < b.csv; echo aGk= | base64 -d; echo
date -u -d @0 +%Y-%m-%dT%H:%M:%SZ; date -d '2026-11-29 +3 days' +%F
seq 3 -1 1; seq -w 8 10; seq -s, 5; seq 1 200000 | tail -1
echo 'a b  c' | xargs -n1 echo item; ls *.csv | xargs -I{} echo 'file {}'
tac b.csv; rev b.csv | head -1; nl b.csv; fold -w 10 b.csv | head -3
split -l 10 log.txt part_ && wc -l part_* && cat part_* | cmp - log.txt && echo same
column -t -s, a.csv; paste -d: a.csv b.csv | head -2
nonesuch; echo $?; cat missing; echo $?; cd nowhere; echo $?
(cd src && pwd | grep -o 'src$'); pushd src > /dev/null; popd > /dev/null; basename "$PWD" | wc -l
sleep 0.1 & wait; echo done; (sleep 1; echo last) & echo first; wait
sed ':a;N;$!ba;s/\n/ /g' log.txt | wc -w; seq 3000 | sed ':a;N;$!ba;s/\n/,/g' | wc -c
read -r first rest <<< "one two three"; echo "$rest"; mapfile -t lines < b.csv; echo "${#lines[@]} ${lines[1]}"
echo "$RANDOM" | grep -cE '^[0-9]+$'; echo "${UNSET:-default}" "${UNSET+set}"; echo "$0 $#"; set -- p q; echo "$2 $*"
fib() { if (($1 < 2)); then echo "$1"; else echo $(($(fib $(($1 - 1))) + $(fib $(($1 - 2))))); fi; }; fib 10
down() { [ "$1" -eq 0 ] || down $(($1 - 1)); }; down 30; echo deep
timeout 1 sleep 5; echo $?; yes | head -3; yes no | head -20000 | tail -1
"""


def cases():
    """One script a line; a here-document goes on to its end."""
    lines = iter(CASES.strip().splitlines())
    for line in lines:
        if "<<END" in line or "<<'END'" in line:
            while not line.endswith("\nEND"):
                line += "\n" + next(lines)
        yield line


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.suffix not in (".gz", ".tgz")
    }


def prepare(folder):
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def bash(script, folder):
    ran = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True)
    return {"exit_code": ran.returncode, "stdout": ran.stdout, "stderr": ran.stderr}


def tool(program, script, folder):
    command = [program, "call", f"{HERE}#shell_writing", "-", f"--allow-write={folder}", "--json", "--no-config"]
    ran = subprocess.run(command, cwd=folder, input=json.dumps({"script": script}), capture_output=True, text=True)
    try:
        answer = json.loads(ran.stdout)
    except ValueError:
        return {"exit_code": None, "stdout": "", "stderr": ran.stderr}
    structured = answer.get("structured_content")
    return structured or {"exit_code": None, "stdout": "", "stderr": json.dumps(answer.get("error"))}


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else "toolcell"
    os.environ["TZ"] = "UTC"
    os.environ["LC_ALL"] = "C.UTF-8"
    count = same = 0
    for script in cases():
        with tempfile.TemporaryDirectory() as ours, tempfile.TemporaryDirectory() as theirs:
            ours, theirs = pathlib.Path(ours).resolve(), pathlib.Path(theirs).resolve()
            for folder in (ours, theirs):
                prepare(folder)
            expected, found = bash(script, theirs), tool(program, script, ours)
            differs = [key for key in ("exit_code", "stdout") if expected[key] != found[key]]
            if bool(expected["stderr"]) != bool(found["stderr"]):
                differs.append("stderr")
            if files(theirs) != files(ours):
                differs.append("files")
        count += 1
        same += not differs
        if differs:
            print(f"--- {script}")
            for key in differs:
                if key == "files":
                    print("files differ")
                else:
                    print(f"{key}: bash {expected[key]!r}\n{' ' * len(key)}  tool {found[key]!r}")
    print(f"{same} of {count} scripts are the same")


main()
