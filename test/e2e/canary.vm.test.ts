/**
 * A secret of the host goes through everything that a stage can do with it. Then the tests search all stored data for
 * it. They assert each promise that a place does not contain the secret, and each place that does contain it, so that
 * no page promises more.
 */
import { Buffer } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { readEnvironment } from '../../setup/environment.ts';
import { resolveHostPieces } from '../../setup/resolve.ts';
import { entriesBelow } from '../storm/leftovers.ts';
import { Rig, temporal, until } from './rig.ts';

/** With characters that JSON and URLs write in another form. */
const SECRET = `canary "${randomBytes(12).toString('hex')}" /end`;
/** The plan contains it: a search that does not find it would find nothing. */
const CONTROL = `control-${randomBytes(12).toString('hex')}`;

/**
 * Half of the secret at a time, at the border of a piece, as JSON, in base64 (alone, behind a name, broken into lines), in
 * hexadecimal digits, in percent codes, in a file that becomes the output, in a named output, in a mounted folder.
 */
const LEAK = `
set -e
echo "begin $CANARY end"
echo "error $CANARY end" >&2
printf %s "$CANARY" | cut -c 1-20 | tr -d '\\n'; sleep 0.5; printf %s "$CANARY" | cut -c 21-
head -c 65520 /dev/zero | tr '\\0' x; printf '%s\\n' "$CANARY"
printf '{"token":"%s"}\\n' "$(printf %s "$CANARY" | sed 's/"/\\\\"/g')"
printf %s "$CANARY" | base64 -w 0; echo
for name in u us user:; do printf '%s%s and more' "$name" "$CANARY" | base64 -w 0; echo; done
printf 'a long name that takes most of the first line: %s' "$CANARY" | base64
printf %s "$CANARY" | od -An -v -tx1 | tr -d ' \\n'; echo
printf %s "$CANARY" | od -An -v -tx1 | tr -d '\\n' | tr ' ' '%'; echo
printf '%s %s' "$CANARY" "$(printf %s "$CANARY" | base64 -w 0)" > /workspace/answer
mkdir /workspace/output; printf %s "$CANARY" > /workspace/output/kept
printf %s "$CANARY" > /data/written
echo waiting
while [ ! -e /live/go ]; do sleep 0.1; done
`;

const indented = (script: string): string => script.trim().replaceAll('\n', '\n            ');

const SPEC = `api_version: v1
kind: pipeline
name: canary
sandbox: { memory_mb: 256, disk_mb: 64, env: { MARK: ${CONTROL} } }
pipeline:
  boxes:
    - name: leak
      secrets: [CANARY]
      sandbox:
        mounts:
          - { host: ./shared, guest: /data, mode: rw }
          - { host: ./live, guest: /live, mode: ro }
      run:
        program: sh
        args:
          - -c
          - |
            ${indented(LEAK)}
      output_file: /workspace/answer
      outputs: [{ name: kept, guest: /workspace/output }]
    - name: passes
      inputs: [{ from: kept, guest: /workspace/kept }]
      run: { program: sh, args: [-c, "cat /workspace/input.json; env | grep -c canary; cat /workspace/kept/kept"] }
    - name: fails
      env: { CANARY: "" }
      inputs: [{ from: kept, guest: /workspace/kept }]
      run:
        program: sh
        args: [-c, "cat /workspace/input.json; [ \\"$(cat /workspace/kept/kept)\\" = \\"$CANARY\\" ] && echo the same; echo failing with $CANARY $(printf %s \\"$CANARY\\" | base64 -w 0) >&2; exit 3"]
`;

/** The secret as it is, as JSON writes it and as URLs do, in hexadecimal digits, and in base64 wherever it begins in a text. */
const FORMS = [
  SECRET,
  JSON.stringify(SECRET).slice(1, -1),
  encodeURIComponent(SECRET),
  Buffer.from(SECRET).toString('hex'),
  Buffer.from(SECRET).toString('hex').replaceAll(/../g, '%$&'),
  ...['', 'u', 'us'].map((before) => Buffer.from(`${before}${SECRET}`).toString('base64').slice(4, -4)),
];

function holdsSecret(bytes: Buffer): boolean {
  const isPacked = bytes[0] === 0x1f && bytes[1] === 0x8b;
  return FORMS.some((form) => bytes.includes(form)) || (isPacked && holdsSecret(gunzipSync(bytes)));
}

/** Paths below a folder whose bytes contain the secret. Only the owner may have access to each. */
function hitsBelow(folder: string): readonly string[] {
  return entriesBelow(folder).filter((path) => {
    const file = join(folder, path);
    const facts = statSync(file, { throwIfNoEntry: false });
    if (facts === undefined || !facts.isFile() || !holdsSecret(readFileSync(file))) return false;
    expect(facts.mode & 0o077, `the mode of ${path}`).toBe(0);
    return true;
  });
}

/** Reads the command lines of all processes until it is disposed. */
class CommandLines implements Disposable {
  readonly hits = new Set<string>();
  looks = 0;
  readonly #timer = setInterval(() => this.#look(), 50);

  #look(): void {
    this.looks += 1;
    for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
      const command = readIfThere(`/proc/${pid}/cmdline`);
      if (holdsSecret(command)) this.hits.add(command.toString('utf8'));
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** History with its payloads as they are: JSON shows them in base64. */
function decoded(history: string): Buffer {
  const strings = [...history.matchAll(/"([A-Za-z0-9+/=]{8,})"/g)].map((match) => Buffer.from(match[1]!, 'base64'));
  return Buffer.concat([Buffer.from(history), ...strings]);
}

test('a secret is in no history, database, log, event, output or command line; data that a stage passes on contains it', async () => {
  await using rig = new Rig();
  for (const folder of ['shared', 'live']) mkdirSync(join(rig.specDir, folder));
  const run = rig.startWith({ CANARY: SECRET }, 'run', rig.spec('spec.yaml', SPEC), '--run-id', 'canary');
  using commandLines = new CommandLines();
  await rig.waitOutput('canary', 'leak', 'waiting\n');

  // While the stage runs: the file that was handed over, and the folder of the VM that has the command's raw output.
  const during = hitsBelow(rig.stateDir);
  expect(during).toContain('runs/canary/host-variables.json');
  expect(
    during.filter(
      (path) =>
        path !== 'runs/canary/host-variables.json' &&
        !/^vms\/[0-9a-f]+\/(?:exec\/[0-9a-f]+\/std(?:out|err)|scratch\.img)$/.test(path),
    ),
  ).toEqual([]);

  // The command that got the secret has it; no process that continues after the command does.
  const stack = await rig.liveStack();
  const lasting = [stack.supervisorPid, ...rig.keepers().map(({ pid }) => pid)].flatMap((pid) => [
    pid,
    ...rig.descendants(pid).map((child) => child.pid),
  ]);
  expect(lasting.length).toBeGreaterThanOrEqual(6);
  expect(lasting.filter((pid) => holdsSecret(readIfThere(`/proc/${pid}/environ`)))).toEqual([]);

  writeFileSync(join(rig.specDir, 'live/go'), '');
  const { code, stdout, stderr } = await run.done;
  expect(code).toBe(1);
  expect(stderr).toContain('failing with [redacted]');
  const finished = await rig.finish('canary', 10_000);
  expect(finished.outcome.failure).toMatchObject({
    code: 'stage/exit-nonzero',
    stderrTail: expect.stringContaining('failing with [redacted]'),
  });

  // The stages that follow saw the output without the secret, and the named output with it. The first of them does not
  // get the secret.
  expect(await rig.output('canary', 'fails')).toBe('[redacted] [redacted]0\n[redacted]the same\n');

  const printed = await rig.output('canary', 'leak');
  // Also if its halves arrived at different times.
  expect(printed.startsWith('begin [redacted] end\n[redacted]\nxxx')).toBe(true);
  expect(printed).toContain('{"token":"[redacted]"}');
  expect(printed).toContain('xxx[redacted]\n');
  // Alone in base64; behind a name, whose own bits stay; in two lines; in digits; in percent codes.
  expect(printed).toMatch(
    /\n\[redacted\]\n(?:.{0,8}\[redacted\].{0,16}\n){3}.{60,66}\[redacted\]=*\n\[redacted\]\n\[redacted\]\n/,
  );

  const answers = await Promise.all([
    rig.cli('logs', 'canary', '--raw'),
    rig.cli('logs', 'canary', '--json'),
    rig.cli('status', 'canary', '--json'),
    rig.cli('runs', '--json'),
  ]);
  for (const text of [stdout, stderr, ...answers.flatMap((answer) => [answer.stdout, answer.stderr])])
    expect(holdsSecret(Buffer.from(text))).toBe(false);

  const { temporalCli } = await resolveHostPieces(readEnvironment(), { install: false });
  const history = decoded(
    await temporal(temporalCli, rig, 'workflow', 'show', '--workflow-id', 'canary', '--output', 'json'),
  );
  expect(history.includes(CONTROL), 'the control in the history').toBe(true);
  expect(holdsSecret(history)).toBe(false);

  await until('the VMs to be gone', 30_000, () => rig.keepers().length === 0);
  expect((await rig.cli('down')).code).toBe(0);
  const database = ['temporal.db', 'temporal.db-wal'].map((name) => readIfThere(join(rig.stateDir, name)));
  expect(Buffer.concat(database).includes(CONTROL), 'the control in the database').toBe(true);

  // At the end one file has it: the named output, which is data.
  const kept = (await rig.events('canary')).flatMap(({ body }) =>
    body.type === 'stage-finished' && body.stage === 'leak' ? [body.result.outputs['kept']!.sha256] : [],
  );
  expect(kept).toHaveLength(1);
  expect(hitsBelow(rig.stateDir)).toEqual([`artifacts/${kept[0]!.slice(0, 2)}/${kept[0]!}`]);
  expect(readFileSync(join(rig.specDir, 'shared/written'), 'utf8')).toBe(SECRET);

  expect(commandLines.looks).toBeGreaterThan(20);
  expect([...commandLines.hits]).toEqual([]);
  await rig.assertNothingLeft();
});

/** Empty for what is gone: processes end, and the database merges its files. */
function readIfThere(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch {
    return Buffer.alloc(0);
  }
}
