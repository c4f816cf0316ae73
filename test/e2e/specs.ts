/** Specs that the end-to-end stories share. */

/** A stage that notes each of its starts in the VM, prints numbered lines slowly, and at its end prints how often it was started. */
export function counting(lines: number, everySeconds: number, memoryMib = 256): string {
  return `api_version: v1
kind: workflow
name: counting
sandbox: { memory_mb: ${memoryMib} }
workflow:
  steps:
    - name: count
      run:
        program: sh
        args:
          - -c
          - echo start >> /workspace/starts; i=0; while [ $i -lt ${lines} ]; do i=$((i+1)); echo line $i; sleep ${everySeconds}; done; cat /workspace/starts
`;
}

/** A stage that writes a file of half a MiB before each of its lines, and at its end prints how often it was started. */
export function writing(files: number): string {
  return `api_version: v1
kind: workflow
name: writing
sandbox: { memory_mb: 256 }
workflow:
  steps:
    - name: write
      run:
        program: sh
        args:
          - -c
          - echo start >> /workspace/starts; i=0; while [ $i -lt ${files} ]; do i=$((i+1)); head -c 524288 /dev/urandom > /workspace/file-$i; sync; echo line $i; sleep 0.2; done; cat /workspace/starts
`;
}

/** What \`counting\` prints when its command ran once and no byte was lost or doubled. */
export function countedOnce(lines: number): string {
  return Array.from({ length: lines }, (_, index) => `line ${index + 1}\n`).join('') + 'start\n';
}

/** A stage that runs for a given time and prints when it begins and ends. */
export function sleeping(seconds: number): string {
  return `api_version: v1
kind: workflow
name: sleeping
sandbox: { memory_mb: 256 }
workflow:
  steps:
    - name: sleep
      run: { program: sh, args: [-c, "echo begun; sleep ${seconds}; echo ended"] }
`;
}

/**
 * A stage that is ended at its time limit, one that exits with 255, and one that can be cancelled while it prints rows.
 * All three exit with 0 on SIGTERM. The last one has a named output and a reader, and a clean-up reads how it ended.
 */
export function interruptible(rows: number): string {
  return `api_version: v1
kind: workflow
name: interruptible
sandbox: { memory_mb: 256 }
workflow:
  output_step: count
  steps:
    - name: late
      timeout_secs: 2
      continue_on_error: true
      run: { program: sh, args: [-c, "trap 'echo cleaned; exit 0' TERM; while :; do sleep 0.1; done"] }
    - { name: code, depends_on: [late], continue_on_error: true, run: { program: sh, args: [-c, "exit 255"] } }
    - name: export
      depends_on: [code]
      outputs: [{ name: dist, guest: /workspace/dist }]
      run: { program: sh, args: [-c, "trap 'exit 0' TERM; mkdir -p dist; for i in $(seq 1 ${rows}); do echo row $i | tee -a dist/rows; sleep 0.1; done"] }
    - { name: count, run: { program: wc, args: [-l], stdin_from: export } }
    - name: clean
      finally: true
      when: 'stages.export.state == "cancelled"'
      run: { program: echo, args: [cleaned] }
`;
}

/** Two boxes that run side by side, each in its own VM, then one that merges them. */
export function sideBySide(seconds: number): string {
  return `api_version: v1
kind: pipeline
name: side-by-side
sandbox: { memory_mb: 256 }
pipeline:
  boxes:
    - name: left
      run: { program: sh, args: [-c, "echo left begun >&2; sleep ${seconds}; echo left"] }
    - name: right
      run: { program: sh, args: [-c, "echo right begun >&2; sleep ${seconds}; echo right"] }
    - name: merge
      run: { program: cat, args: [/workspace/input.json] }
  stages:
    - { type: fan_out, boxes: [left, right] }
    - { type: box, name: merge }
`;
}
