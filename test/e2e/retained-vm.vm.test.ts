/**
 * The VM that a failed stage leaves: users enter it, see it and release it, and it ends at its time whatever happens to
 * the worker.
 */
import { createHash, randomBytes } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { closeSync, openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test } from 'vitest';
import { listRunDirs } from '../../native/index.ts';
import { vmsDir } from '../../store/state-folder.ts';
import { Rig } from './rig.ts';
import { useRig } from './shared-rig.ts';

const spec = (keepSecs: number): string => `api_version: v1
kind: workflow
name: look
sandbox: { memory_mb: 192, keep: on-failure, keep_secs: ${keepSecs} }
workflow:
  steps:
    - name: build
      sandbox: { memory_mb: 192 }
      secrets: [VOIDBOX_TEST_TOKEN]
      run: { program: sh, args: [-c, "echo half > /workspace/made; exit 7"] }
`;

const TIDY = `    - name: tidy
      finally: true
      sandbox: { keep: never }
      run: { program: echo, args: [tidied] }
`;

const cutOff = (runId: string): RegExp =>
  new RegExp(
    `^error: the command was cut off: [^\\n]+ \\(vm/lost\\)\\n  See how its stage ended: [^\\n]*voidbox status ${runId}\\n$`,
  );

interface Shown {
  readonly vms: readonly {
    readonly id: string;
    readonly state: string;
    readonly retention: { readonly stage: string; readonly untilMs: number } | null;
  }[];
}

async function shown(rig: Rig, ...more: readonly string[]): Promise<Shown['vms']> {
  return (JSON.parse((await rig.cli('ps', '--json', ...more)).stdout) as Shown).vms;
}

test.concurrent('a retained VM outlives the worker and clean-ups of its successor, and ends at its time', async ({
  expect,
}) => {
  await using rig = new Rig({ VOIDBOX_TEST_TOKEN: 'x', VOIDBOX_ORPHAN_TIMEOUT_MS: '10000' });
  await rig.launch(rig.spec('spec.yaml', spec(60)), 'look');
  await rig.finish('look');
  const [vm] = await shown(rig);
  const untilMs = vm?.retention?.untilMs ?? 0;
  const { workerPid } = await rig.liveStack();
  rig.kill(workerPid);
  // Longer than an orphan lives, and longer than the janitor waits for its next round.
  await sleep(Math.max(0, untilMs - Date.now() - 15_000));
  expect((await rig.liveStack()).workerPid).not.toBe(workerPid);
  expect(await rig.cli('exec', 'look', '--', 'cat', '/workspace/made')).toMatchObject({ code: 0, stdout: 'half\n' });
  await expect.poll(() => rig.keepers().length, { timeout: 60_000 }).toBe(0);
  expect(Date.now()).toBeGreaterThan(untilMs - 2_000);
  expect(Date.now()).toBeLessThan(untilMs + 30_000);
  await rig.assertNothingLeft();
});

// Runs next to the previous test, which mostly waits.
describe.concurrent('on a stack that they share,', () => {
  const theRig = useRig({ VOIDBOX_TEST_TOKEN: 'a-token-of-the-stage' });

  test.sequential('`exec` enters a retained VM, `ps` shows it and `release` ends it, after its run has ended', async ({
    expect,
  }) => {
    const rig = theRig();
    await rig.launch(rig.spec('spec.yaml', spec(600) + TIDY), 'look');
    const { outcome } = await rig.finish('look');
    expect(outcome).toMatchObject({ state: 'failed', failedStage: 'build' });
    expect(outcome.failure?.message).toMatch(
      /^stage build ended with exit code 7; its VM is left until \d{4}-\S+Z: look with `voidbox exec look build -- COMMAND`, end it with `voidbox release look build`$/,
    );
    expect(await rig.output('look', 'tidy')).toBe('tidied\n');

    expect(await shown(rig)).toMatchObject([{ id: 'look/build/0', state: 'running', retention: { stage: 'build' } }]);
    expect((await rig.cli('ps')).stdout).toMatch(
      /^look\/build\/0 +idle, left by build for 9m \d\ds +qemu \w+ +192 MiB/m,
    );

    expect(await rig.cli('exec', 'look', 'build', '--', 'cat', '/workspace/made')).toEqual({
      code: 0,
      stdout: 'half\n',
      stderr: '',
    });
    const failing = ['sh', '-c', 'id -u; pwd; echo wrong >&2; exit 5'];
    expect(await rig.cli('exec', 'latest', '--cwd', '/tmp', '--', ...failing)).toEqual({
      code: 5,
      stdout: '1000\n/tmp\n',
      stderr: 'wrong\n',
    });
    expect((await rig.cli('exec', 'look', '--', 'env')).stdout).not.toContain('a-token-of-the-stage');
    expect((await rig.cli('exec', 'look', '--', 'no-such-program')).code).toBe(127);
    // Much output, and two commands at once.
    const counted = await Promise.all(
      [1, 2].map((number) => rig.cli('exec', 'look', '--', 'sh', '-c', `sleep ${number}; seq 1 20000 | tail -n 19999`)),
    );
    for (const { code, stdout } of counted) {
      expect(code).toBe(0);
      expect(stdout.split('\n')).toHaveLength(20_000);
    }
    // A command ends if its output goes nowhere: its reader ends, or the disk is full.
    const [program, ...before] = rig.commandLine('exec', 'look', '--').map((word) => `'${word}'`);
    const unread = (command: string, rest: string): ReturnType<typeof spawnSync> =>
      spawnSync('bash', ['-c', `set -o pipefail; ${[program, ...before].join(' ')} ${command} ${rest}`], {
        env: rig.env,
        encoding: 'utf8',
      });
    expect(unread('yes', '| head -n 1')).toMatchObject({ status: 0, stdout: 'y\n', stderr: '' });
    expect(unread('yes n', '> /dev/full')).toMatchObject({
      status: 3,
      stderr: expect.stringContaining('no space left on device') as string,
    });
    await expect
      .poll(async () => (await rig.cli('exec', 'look', '--', 'sh', '-c', 'ps | grep " yes" | grep -v grep')).stdout)
      .toBe('');
    expect((await rig.cli('exec', 'look', 'tidy', '--', 'true')).code).toBe(2);

    // From another state folder, as from another machine.
    const elsewhere = {
      VOIDBOX_STATE_DIR: join(rig.specDir, 'elsewhere'),
      VOIDBOX_SERVER: `unix:${join(rig.stateDir, 'api.sock')}`,
    };
    const released = await rig.startWith(elsewhere, 'release', 'look').done;
    expect(released).toMatchObject({ code: 0, stdout: 'The VM of look, stage build, has ended.\n' });
    expect(await shown(rig)).toEqual([]);
    const gone = await rig.cli('exec', 'look', '--', 'true');
    expect(gone.code).toBe(2);
    expect(gone.stderr).toContain('run look has no VM that a failed stage kept');
  });

  test.sequential('`exec -i` passes standard input on, to its end', async ({ expect }) => {
    const rig = theRig();
    await rig.launch(rig.spec('spec.yaml', spec(600)), 'fed');
    await rig.finish('fed');
    const exec = (...command: readonly string[]): ReturnType<Rig['startFed']> =>
      rig.startFed('exec', '-i', 'fed', '--', ...command);

    const echoed = exec('cat');
    echoed.child.stdin!.end('hi\n');
    expect(await echoed.done).toEqual({ code: 0, stdout: 'hi\n', stderr: '' });

    // Typed text reaches the command before the input ends, and the exit code of the command counts.
    const lines = exec('sh', '-c', 'read first; echo "got $first"; read second; echo "got $second"; exit 3');
    lines.child.stdin!.write('one\n');
    let said = '';
    lines.child.stdout!.on('data', (text: string) => (said += text));
    await expect.poll(() => said, { timeout: 20_000 }).toBe('got one\n');
    lines.child.stdin!.write('two\n');
    // The input is still open: the command ends on its own.
    expect(await lines.done).toEqual({ code: 3, stdout: 'got one\ngot two\n', stderr: '' });

    const bytes = randomBytes(10 * 1024 * 1024);
    const summed = exec('sha256sum');
    summed.child.stdin!.end(bytes);
    expect((await summed.done).stdout).toBe(`${createHash('sha256').update(bytes).digest('hex')}  -\n`);

    const partly = exec('sh', '-c', 'head -c 3; exit 4');
    partly.child.stdin!.end(Buffer.alloc(10 * 1024 * 1024, 'a'));
    expect(await partly.done).toEqual({ code: 4, stdout: 'aaa', stderr: '' });

    // A command that closes its input and continues is not ended because of that.
    const closing = exec('sh', '-c', 'head -c 1 >/dev/null; exec <&-; sleep 7; echo done');
    closing.child.stdin!.end(Buffer.alloc(10 * 1024 * 1024, 'a'));
    expect(await closing.done).toEqual({ code: 0, stdout: 'done\n', stderr: '' });

    const interrupted = exec('sh', '-c', 'echo ready; cat');
    let readied = '';
    interrupted.child.stdout!.on('data', (text: string) => (readied += text));
    await expect.poll(() => readied, { timeout: 20_000 }).toBe('ready\n');
    interrupted.child.kill('SIGINT');
    expect((await interrupted.done).code).toBe(130);

    // Without `-i` a command reads nothing, even if there is input.
    const without = rig.startFed('exec', 'fed', '--', 'cat');
    without.child.stdin!.write('of a script\n');
    expect(await without.done).toEqual({ code: 0, stdout: '', stderr: '' });

    const file = openSync(rig.spec('input.txt', 'of a file\n'), 'r');
    const [program = '', ...args] = rig.commandLine('exec', '-i', 'fed', '--', 'cat');
    const ofFile = spawnSync(program, args, { env: rig.env, stdio: [file, 'pipe', 'pipe'], encoding: 'utf8' });
    closeSync(file);
    expect(ofFile).toMatchObject({ status: 0, stdout: 'of a file\n', stderr: '' });

    expect((await rig.cli('release', 'fed')).code).toBe(0);
  });

  const RUNNING = `api_version: v1
kind: workflow
name: look
sandbox: { memory_mb: 192 }
workflow:
  steps:
    - name: build
      secrets: [VOIDBOX_TEST_TOKEN]
      run: { program: sh, args: [-c, "echo half > /workspace/made; echo ready; sleep 3600"] }
`;

  test.sequential('`exec` enters the VM of a running stage as its user, with a notice, if the worker allows it', async ({
    expect,
  }) => {
    const rig = theRig();
    await rig.launch(rig.spec('spec.yaml', RUNNING), 'entered');
    await rig.eventOf('entered', 'output');
    const entered = await rig.cli('exec', 'entered', 'build', '--', 'sh', '-c', 'cat /workspace/made; id -u; exit 5');
    expect(entered).toEqual({ code: 5, stdout: 'half\n1000\n', stderr: '' });
    expect((await rig.cli('exec', 'entered', '--', 'env')).stdout).not.toContain('a-token-of-the-stage');
    expect((await rig.cli('status', 'entered')).stdout).toContain('`voidbox exec` runs env in the VM of stage build');
    const other = await rig.cli('exec', 'entered', 'tidy', '--', 'true');
    expect([other.code, other.stderr]).toEqual([2, expect.stringContaining('Stages that run: build')]);
    // A worker that does not allow it leaves no such file.
    for (const dir of await listRunDirs(vmsDir(rig.stateDir))) rmSync(join(dir, 'entry.json'), { force: true });
    const refused = await rig.cli('exec', 'entered', 'build', '--', 'true');
    expect([refused.code, refused.stderr]).toEqual([3, expect.stringContaining('voidbox worker --allow-exec')]);
    expect((await rig.cli('cancel', 'entered')).code).toBe(0);
  });

  test.sequential('a command ends with exit code 1 if the VM of its stage ends before it', async ({ expect }) => {
    const rig = theRig();
    await rig.launch(rig.spec('spec.yaml', RUNNING), 'hanging');
    await rig.eventOf('hanging', 'output');
    const hanging = rig.startFed('exec', 'hanging', 'build', '--', 'sh', '-c', 'echo up; exec sleep 600');
    let said = '';
    hanging.child.stdout!.on('data', (text: string) => (said += text));
    await expect.poll(() => said, { timeout: 20_000 }).toBe('up\n');
    expect((await rig.cli('cancel', 'hanging')).code).toBe(0);
    const { code, stderr } = await hanging.done;
    expect([code, stderr]).toEqual([1, expect.stringMatching(cutOff('hanging'))]);
  });

  // This test is the last one, because it stops the stack that the others share.
  test.sequential('`down` ends a retained VM at once, and its commands end with it', async ({ expect }) => {
    const rig = theRig();
    await rig.launch(rig.spec('spec.yaml', spec(3_600)), 'at-down');
    await rig.finish('at-down');
    const hanging = rig.start('exec', 'at-down', '--', 'sh', '-c', 'echo entered; exec sleep 600');
    let said = '';
    hanging.child.stdout!.on('data', (text: string) => (said += text));
    await expect.poll(() => said, { timeout: 20_000 }).toBe('entered\n');
    const down = await rig.cli('down');
    expect(down).toMatchObject({ code: 0 });
    expect(down.stdout).toContain('1 VM that a failed stage had kept for inspection has ended.');
    const { code, stderr } = await hanging.done;
    // The remedy of a lost VM is for stages.
    expect([code, stderr]).toEqual([1, expect.stringMatching(cutOff('at-down'))]);
    expect(rig.keepers()).toEqual([]);
  });
});
