/**
 * The file that `voidbox init` writes: small enough to read at once, with one example of each thing that a user needs
 * first.
 */
export const FIRST_SPEC = `# A first pipeline: three steps share one micro-VM. Run it: voidbox run voidbox.yaml
api_version: v1
kind: workflow                 # or \`pipeline\`: each box in a VM of its own
name: first

params:                        # change one: voidbox run voidbox.yaml --param who=you
  who: world

sandbox:
  memory_mb: 256

workflow:
  output_step: report          # its standard output is the result
  steps:
    - name: numbers
      run: seq 1 10

    - name: sum                # waits for \`numbers\` and reads what it wrote
      depends_on: [numbers]
      run:                     # a program with its arguments; no shell reads them
        program: awk
        args: ["{ total += $1 } END { print total }"]
        stdin_from: numbers

    - name: report
      depends_on: [sum]
      run:
        script: echo "Hello, \${{ params.who }}. 1 + … + 10 is $(cat) (on $(uname -s) $(uname -r))"
        stdin_from: sum
`;
