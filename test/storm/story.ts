/** Runs whose every byte is known beforehand, small enough for many rounds. */

/** The effects of one stage each time its command runs to its end. */
export interface StageStory {
  readonly stage: string;
  readonly scope: string;
  readonly stdout: string;
  readonly stderr: string;
  /** Standard output of an attempt that fails as the spec says; null: no attempt may fail. */
  readonly failing: string | null;
}

export interface Story {
  readonly name: string;
  readonly spec: string;
  readonly stages: readonly StageStory[];
  /** The run's result. Null: there is no result, because the run is cancelled. */
  readonly result: string | null;
  readonly states: readonly string[];
  /** The files below the spec's folder before the run. */
  readonly before: Readonly<Record<string, string>>;
  /** The files after a run that succeeded; there are no others. */
  readonly after: Readonly<Record<string, string>>;
  readonly variables: Readonly<Record<string, string>>;
  /** The time of the cancel after the start. */
  readonly cancelAtMs: number | null;
}

const EMPTY = { before: {}, after: {}, variables: {}, cancelAtMs: null, states: ['succeeded'] } as const;
const SANDBOX = 'memory_mb: 160';

function numbered(word: string, count: number): string {
  return Array.from({ length: count }, (_, index) => `${word} ${index + 1}\n`).join('');
}

/** One step that prints, reads a variable of the host and writes to a folder of the host. */
export function lines(): Story {
  const count = 60;
  return {
    ...EMPTY,
    name: 'lines',
    spec: `api_version: v1
kind: workflow
name: lines
sandbox: { ${SANDBOX}, mounts: [{ host: ./shared, guest: /data, mode: rw }] }
workflow:
  steps:
    - name: lines
      env: { STORM_TOKEN: "" }
      run:
        program: sh
        args:
          - -c
          - |
            set -e
            echo start >> /workspace/starts
            echo written >> /data/journal
            mkdir /data/made
            i=0; while [ $i -lt ${count} ]; do i=$((i+1)); echo line $i; echo note $i >&2; sleep 0.08; done
            echo token $STORM_TOKEN
            cat /workspace/starts
            echo done > /data/made/last
`,
    stages: [
      {
        stage: 'lines',
        scope: '_shared',
        stdout: `${numbered('line', count)}token [redacted]\nstart\n`,
        stderr: numbered('note', count),
        failing: null,
      },
    ],
    result: `${numbered('line', count)}token [redacted]\nstart\n`,
    before: { 'shared/journal': 'before\n' },
    after: { 'shared/journal': 'before\nwritten\n', 'shared/made/last': 'done\n' },
    variables: { STORM_TOKEN: 'storm-secret-0123456789' },
  };
}

/** Steps in one VM: side by side, one that fails the first time in each VM, one that reads another's output. */
export function shared(): Story {
  return {
    ...EMPTY,
    name: 'shared',
    spec: `api_version: v1
kind: workflow
name: shared
sandbox: { ${SANDBOX}, vcpus: 2 }
workflow:
  steps:
    - name: first
      run: { program: sh, args: [-c, "echo first >> /workspace/starts; i=0; while [ $i -lt 25 ]; do i=$((i+1)); echo line $i; sleep 0.08; done"] }
    - name: flaky
      depends_on: [first]
      retry: { max_attempts: 20 }
      run: { program: sh, args: [-c, "echo flaky >> /workspace/starts; sleep 0.5; if [ -e /workspace/tried ]; then echo passed; else touch /workspace/tried; echo tried; exit 3; fi"] }
    - name: side
      depends_on: [first]
      run: { program: sh, args: [-c, "echo side >> /workspace/starts; i=0; while [ $i -lt 20 ]; do i=$((i+1)); echo side $i; echo beside $i >&2; sleep 0.08; done"] }
    - name: last
      depends_on: [flaky, side]
      run: { program: sh, args: [-c, "wc -l; sort /workspace/starts"], stdin_from: first }
  output_step: last
`,
    stages: [
      { stage: 'first', scope: '_shared', stdout: numbered('line', 25), stderr: '', failing: null },
      { stage: 'flaky', scope: '_shared', stdout: 'passed\n', stderr: '', failing: 'tried\n' },
      { stage: 'side', scope: '_shared', stdout: numbered('side', 20), stderr: numbered('beside', 20), failing: null },
      { stage: 'last', scope: '_shared', stdout: '25\nfirst\nflaky\nflaky\nside\n', stderr: '', failing: null },
    ],
    result: '25\nfirst\nflaky\nflaky\nside\n',
  };
}

/** Steps in one VM that is saved after each of them: however often it is lost, each step has left its line once. */
export function saved(): Story {
  const count = 15;
  const steps = ['first', 'second', 'third'];
  const run = (step: string): string =>
    `run: { program: sh, args: [-c, "echo ${step} >> /workspace/starts; i=0; while [ $i -lt ${count} ]; do i=$((i+1)); echo ${step} $i; sleep 0.08; done"] }`;
  return {
    ...EMPTY,
    name: 'saved',
    spec: `api_version: v1
kind: workflow
name: saved
sandbox: { ${SANDBOX} }
workflow:
  checkpoint: each-step
  steps:
    - { name: first, ${run('first')} }
    - { name: second, depends_on: [first], ${run('second')} }
    - { name: third, depends_on: [second], ${run('third')} }
    - { name: last, depends_on: [third], run: { program: cat, args: [/workspace/starts] } }
`,
    stages: [
      ...steps.map((stage) => ({
        stage,
        scope: '_shared',
        stdout: numbered(stage, count),
        stderr: '',
        failing: null,
      })),
      { stage: 'last', scope: '_shared', stdout: 'first\nsecond\nthird\n', stderr: '', failing: null },
    ],
    result: 'first\nsecond\nthird\n',
  };
}

/** Boxes with a VM each, that pass each other JSON and a folder. */
export function boxes(): Story {
  const carried = '[{"name":"left","output":"left says 42\\n"},{"name":"right","output":{"says":43}}]';
  return {
    ...EMPTY,
    name: 'boxes',
    spec: `api_version: v1
kind: pipeline
name: boxes
sandbox: { ${SANDBOX} }
pipeline:
  boxes:
    - name: left
      run: { program: sh, args: [-c, "i=0; while [ $i -lt 30 ]; do i=$((i+1)); echo left $i; sleep 0.08; done; echo left says 42 > /workspace/answer"] }
      output_file: /workspace/answer
    - name: right
      run: { program: sh, args: [-c, "mkdir /workspace/output; echo made > /workspace/output/made; echo making >&2; sleep 1; printf '{\\"says\\":43}'"] }
      outputs: [{ name: files, guest: /workspace/output }]
    - name: merge
      inputs: [{ from: files, guest: /workspace/input }]
      run: { program: sh, args: [-c, "cat /workspace/input.json /workspace/input/made"] }
  stages:
    - { type: fan_out, boxes: [left, right] }
    - { type: box, name: merge }
`,
    stages: [
      { stage: 'left', scope: 'left', stdout: numbered('left', 30), stderr: '', failing: null },
      { stage: 'right', scope: 'right', stdout: '{"says":43}', stderr: 'making\n', failing: null },
      { stage: 'merge', scope: 'merge', stdout: `${carried}made\n`, stderr: '', failing: null },
    ],
    result: `${carried}made\n`,
  };
}

/** Steps side by side on two processors, in one writable folder of the host: what each leaves, what they change and remove. */
export function mounts(): Story {
  const count = 18;
  const letters = 'abcdefghijkl';
  const big = [...letters].map((letter) => letter.repeat(16_384)).join('');
  const pieces = Array.from({ length: count }, (_, index) => index + 1);
  const joined = `${numbered('left', count)}${count}\nin\nbig\nkept\nleft\nright\nthing\n`;
  const kept = { 'shared/big': big, 'shared/kept': 'kept\n' };
  return {
    ...EMPTY,
    name: 'mounts',
    // The folders that are made are there once in each VM: a command that ran twice fails on them.
    spec: `api_version: v1
kind: workflow
name: mounts
sandbox: { ${SANDBOX}, vcpus: 2, mounts: [{ host: ./shared, guest: /data, mode: rw }] }
workflow:
  steps:
    - name: left
      run: { program: sh, args: [-c, "i=0; while [ $i -lt ${count} ]; do i=$((i+1)); echo left $i >> /data/left; echo left $i; sleep 0.1; done"] }
    - name: right
      run: { program: sh, args: [-c, "mkdir /data/right || exit 9; i=0; while [ $i -lt ${count} ]; do i=$((i+1)); echo right $i > /data/right/$i; echo right $i >&2; sleep 0.15; done"] }
    - name: types
      run: { program: sh, args: [-c, "cd /data; sleep 0.7; rm thing gone && mkdir thing || exit 9; echo in > thing/in; echo changed; sleep 0.5"] }
    - name: reader
      run: { program: sh, args: [-c, "i=0; while [ $i -lt ${letters.length} ]; do dd if=/data/big bs=16384 skip=$i count=1 2> /dev/null | tr -s a-z; echo; i=$((i+1)); sleep 0.2; done"] }
    - name: join
      depends_on: [left, right, types, reader]
      run: { program: sh, args: [-c, "cd /data; cat left; ls right | wc -l; cat thing/in; ls; echo joined > joined"] }
  output_step: join
`,
    stages: [
      { stage: 'left', scope: '_shared', stdout: numbered('left', count), stderr: '', failing: null },
      { stage: 'right', scope: '_shared', stdout: '', stderr: numbered('right', count), failing: null },
      { stage: 'types', scope: '_shared', stdout: 'changed\n', stderr: '', failing: null },
      {
        stage: 'reader',
        scope: '_shared',
        stdout: [...letters].map((letter) => `${letter}\n`).join(''),
        stderr: '',
        failing: null,
      },
      { stage: 'join', scope: '_shared', stdout: joined, stderr: '', failing: null },
    ],
    result: joined,
    before: { ...kept, 'shared/thing': 'a file\n', 'shared/gone': 'goes\n' },
    after: {
      ...kept,
      'shared/left': numbered('left', count),
      ...Object.fromEntries(pieces.map((piece) => [`shared/right/${piece}`, `right ${piece}\n`])),
      'shared/thing/in': 'in\n',
      'shared/joined': 'joined\n',
    },
  };
}

/** A step without an end, cancelled in its middle. */
export function cancelled(cancelAtMs: number): Story {
  return {
    ...EMPTY,
    name: 'cancelled',
    spec: `api_version: v1
kind: workflow
name: cancelled
sandbox: { ${SANDBOX}, mounts: [{ host: ./shared, guest: /data, mode: rw }] }
workflow:
  steps:
    - name: endless
      run: { program: sh, args: [-c, "echo written >> /data/journal; i=0; while [ $i -lt 9999 ]; do i=$((i+1)); echo line $i; sleep 0.1; done"] }
`,
    stages: [{ stage: 'endless', scope: '_shared', stdout: numbered('line', 9_999), stderr: '', failing: null }],
    result: null,
    states: ['cancelled'],
    before: { 'shared/journal': 'before\n' },
    after: { 'shared/journal': 'before\n' },
    cancelAtMs,
  };
}
