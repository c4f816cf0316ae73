/** Commands of a VM whose keeper is a script of the test. */
import { expect, test } from 'vitest';
import type { SandboxFacts } from '../../activities/ports/sandbox.ts';
import { answer, fakeKeeper, launchFake, soon, STATUS, useFakeKeepers } from '../../test/rig/vms/fake-keeper.ts';
import { createMicroVmSandbox } from './sandbox.ts';

useFakeKeepers();

const FACTS = { fence: 7 } as SandboxFacts;
const DISK = { diskMib: 64, vmm: 'qemu', root: null, kernelKind: 'debian' };
const REQUEST = {
  key: 'one/0/1',
  program: 'sh',
  args: [],
  env: {},
  cwd: '/',
  stdin: null,
  timeoutMs: 1_000,
  maxOutputBytes: 1_000,
};

test('`execs` lists a command whose start was aborted before the keeper answered it', async () => {
  let hasStarted = false;
  let asked!: (answerIt: () => void) => void;
  const wasAsked = new Promise<() => void>((resolve) => (asked = resolve));
  const keeper = await fakeKeeper({
    'exec.start': (request, socket) =>
      asked(() => {
        hasStarted = true;
        answer(socket, request, { known: false });
      }),
    status: (request, socket) => {
      const execs = hasStarted ? [{ execKey: 'one/0/1', state: 'running' }] : [];
      answer(socket, request, { ...STATUS, execs });
    },
  });
  const sandbox = createMicroVmSandbox(await launchFake(keeper), FACTS, DISK, {}, () => undefined);
  const stop = new AbortController();
  const exec = sandbox.exec(REQUEST, stop.signal);
  const answerIt = await wasAsked;
  stop.abort(new Error('cancelled'));
  await expect(exec).rejects.toThrow('cancelled');
  const execs = sandbox.execs();
  answerIt();
  expect(await execs).toEqual([{ key: 'one/0/1', isRunning: true }]);
  await sandbox.attachExec('one/0/1').end({ kind: 'cancel' }, 2_000);
});

test('an `exec` whose signal is aborted already asks the keeper for nothing', async () => {
  const asked: string[] = [];
  const keeper = await fakeKeeper({
    'exec.start': (request, socket) => {
      asked.push(String(request['execKey']));
      answer(socket, request, { known: false });
    },
  });
  const sandbox = createMicroVmSandbox(await launchFake(keeper), FACTS, DISK, {}, () => undefined);
  await expect(sandbox.exec(REQUEST, AbortSignal.abort(new Error('cancelled')))).rejects.toThrow('cancelled');
  await expect(sandbox.exec(REQUEST, soon())).resolves.toMatchObject({ attached: false });
  expect(asked).toEqual(['one/0/1']);
});
