/** Another user of the machine that knows every path, pid and port of a stack with a run in a VM. */
import { execFile } from 'node:child_process';
import { chmodSync, lstatSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { Rig } from '../e2e/rig.ts';
import { entriesBelow } from '../storm/leftovers.ts';

/** The user `nobody`. */
const OTHER_UID = 65_534;

interface Targets {
  readonly files: readonly string[];
  readonly folders: readonly string[];
  readonly sockets: readonly string[];
  readonly pids: readonly number[];
  readonly ports: readonly number[];
}

/** The attempts that succeeded. */
interface Gains {
  readonly read: readonly string[];
  readonly written: readonly string[];
  readonly connected: readonly string[];
  readonly environments: readonly number[];
  readonly signalled: readonly number[];
  readonly reached: readonly number[];
}

/** Runs in a process of the other user; plain JavaScript, because that user cannot read the checkout. */
const ATTEMPTS = `
const fs = require('node:fs'), net = require('node:net'), path = require('node:path');
const targets = JSON.parse(fs.readFileSync(0, 'utf8'));
const works = (attempt) => (target) => { try { attempt(target); return true; } catch { return false; } };
const connects = (options) => new Promise((resolve) => {
  const socket = net.connect(options, () => { socket.destroy(); resolve(true); });
  socket.once('error', () => resolve(false));
});
const filterBy = async (targets, probe) => { const kept = []; for (const target of targets) if (await probe(target)) kept.push(target); return kept; };
(async () => {
  process.stdout.write(JSON.stringify({
    read: targets.files.filter(works((file) => fs.closeSync(fs.openSync(file, 'r')))),
    written: [
      ...targets.files.filter(works((file) => fs.closeSync(fs.openSync(file, 'r+')))),
      ...targets.folders.filter(works((folder) => fs.writeFileSync(path.join(folder, 'planted'), ''))),
    ],
    connected: await filterBy(targets.sockets, (socket) => connects({ path: socket })),
    environments: targets.pids.filter(works((pid) => fs.readFileSync('/proc/' + pid + '/environ'))),
    signalled: targets.pids.filter(works((pid) => process.kill(pid, 'SIGCONT'))),
    reached: await filterBy(targets.ports, (port) => connects({ host: '127.0.0.1', port })),
  }));
})();
`;

async function asOtherUser(targets: Targets): Promise<Gains> {
  return await new Promise((resolve, reject) => {
    const options = { uid: OTHER_UID, gid: OTHER_UID, env: {}, cwd: '/', timeout: 60_000, maxBuffer: 16 * 1024 * 1024 };
    const child = execFile(process.execPath, ['-e', ATTEMPTS], options, (error, stdout) =>
      error ? reject(error) : resolve(JSON.parse(stdout) as Gains),
    );
    child.stdin!.end(JSON.stringify(targets));
  });
}

beforeAll(() => {
  if (process.getuid?.() !== 0)
    throw new Error('this test becomes another user, which root alone may: run it as root, as CI does');
});

test('another user reads, writes and reaches nothing of a state folder that all may look into, and no process; ports on loopback are open', async () => {
  await using rig = new Rig();
  // The worst that a user can hand over: folders that existed, open to all.
  for (const folder of [rig.specDir, rig.stateDir]) mkdirSync(folder, { recursive: true });
  for (const folder of [rig.specDir, rig.stateDir]) chmodSync(folder, 0o755);
  const spec = `api_version: v1
kind: workflow
name: private
sandbox: { memory_mb: 160 }
workflow:
  steps:
    - name: stay
      env: { TOKEN: "" }
      run: { program: sh, args: [-c, "echo begun; sleep 600"] }
`;
  const started = await rig.startWith(
    { TOKEN: 'a-secret-of-the-host' },
    'run',
    rig.spec('spec.yaml', spec),
    '--run-id',
    'private',
    '--detach',
  ).done;
  expect(started.stderr).not.toContain('error');
  await rig.waitOutput('private', 'stay', 'begun');
  const stack = await rig.liveStack();
  const keeper = rig.keepers()[0]!;

  const paths = entriesBelow(rig.stateDir).map((path) => join(rig.stateDir, path));
  const ofKind = (is: (facts: ReturnType<typeof lstatSync>) => boolean): readonly string[] =>
    paths.filter((path) => is(lstatSync(path)));
  const pids = [
    stack.supervisorPid,
    stack.serverPid,
    stack.workerPid,
    keeper.pid,
    ...rig.descendants(keeper.pid).map(({ pid }) => pid),
  ];
  const targets: Targets = {
    files: ofKind((facts) => facts!.isFile()),
    folders: [rig.stateDir, ...ofKind((facts) => facts!.isDirectory())],
    sockets: ofKind((facts) => facts!.isSocket()),
    pids,
    ports: [Number(stack.address.split(':')[1])],
  };
  // There is something to gain: the database, the variables that were handed over, the keeper's socket.
  for (const name of ['temporal.db', 'host-variables.json', 'events.jsonl', 'stdout'])
    expect(
      targets.files.some((file) => file.endsWith(`/${name}`)),
      name,
    ).toBe(true);
  expect(targets.sockets.some((socket) => socket.startsWith(keeper.dir))).toBe(true);
  expect(readFileSync(`/proc/${stack.workerPid}/environ`).length).toBeGreaterThan(0);

  const gains = await asOtherUser(targets);
  expect({ ...gains, reached: [] }).toEqual({
    read: [],
    written: [],
    connected: [],
    environments: [],
    signalled: [],
    reached: [],
  });
  // Said in docs/reference/security.md, and asserted so that the page stays true.
  expect(gains.reached).toEqual(targets.ports);

  expect((await rig.cli('cancel', 'private')).code).toBe(0);
  await rig.assertNothingLeft();
});
