/** Failures of `execInVm` in words of the command line: a user knows no op of the keeper. */
import { describe, expect, test } from 'vitest';
import { answer, fakeKeeper, type Handler, STATUS, useFakeKeepers } from '../../test/rig/vms/fake-keeper.ts';
import { execInVm } from './retained-vms.ts';

useFakeKeepers();

const refuse: Handler = (request, socket) =>
  void socket.write(`${JSON.stringify({ id: request['id'], error: { code: 'guest/error', message: 'because' } })}\n`);

const silent: Handler = () => undefined;

/** A stream without a byte. */
const empty: Handler = (request, socket) => {
  answer(socket, request, { offset: 0 });
  socket.end();
};

async function failureOf(handlers: Readonly<Record<string, Handler>>, args: readonly string[] = []): Promise<Error> {
  const keeper = await fakeKeeper({ status: (request, socket) => answer(socket, request, STATUS), ...handlers });
  const failed = execInVm(
    { dir: keeper.dir, vmKey: 'run/scope/0', env: {}, untilMs: null },
    { program: 'ls', args, cwd: '/workspace' },
    { input: null, write: () => Promise.resolve(), onInterrupt: () => ({ dispose: () => undefined }) },
    () => Promise.resolve(keeper.binary),
  );
  return await failed.then(
    () => expect.fail('the command does not fail'),
    (error: unknown) => error as Error,
  );
}

describe('a failure of exec names in words', () => {
  test.each([
    ['status', 'asking for the state of the VM: because'],
    ['exec.start', 'starting the command: because'],
    ['exec.wait', 'waiting for the command: because'],
    ['exec.output', 'reading output of the command: because'],
  ])('what failed, if the keeper refuses %s', async (op, message) => {
    expect((await failureOf({ 'exec.wait': silent, 'exec.output': empty, [op]: refuse })).message).toBe(message);
  });

  test('an answer that makes no sense', async () => {
    const { message } = await failureOf({
      'exec.wait': (request, socket) => answer(socket, request, { reason: 'bored' }),
      'exec.output': empty,
    });
    expect(message).toBe('waiting for the command: the answer of the VM\'s keeper has reason = "bored"');
  });

  test('arguments that are too long', async () => {
    const { message } = await failureOf({}, ['x'.repeat(2 ** 20)]);
    expect(message).toMatch(/^starting the command needs a request of \d+ bytes/);
  });
});

const EXITED = {
  reason: 'exited',
  exitCode: 0,
  signal: null,
  cause: null,
  message: null,
  startedAtMs: 1,
  endedAtMs: 2,
  stdoutBytes: 3,
  stderrBytes: 0,
  droppedBytes: 0,
};

test('a command runs although another client takes the VM over before it starts and while it runs', async () => {
  let granted = 1;
  const starts: unknown[] = [];
  let reads = 0;
  const stale = (request: Readonly<Record<string, unknown>>, socket: Parameters<Handler>[1]): void =>
    void socket.write(
      `${JSON.stringify({ id: request['id'], error: { code: 'fence/stale', message: 'another client has attached' } })}\n`,
    );
  const underTheFence =
    (then: Handler): Handler =>
    (request, socket) =>
      request['fence'] === granted ? then(request, socket) : stale(request, socket);
  const keeper = await fakeKeeper({
    status: (request, socket) => answer(socket, request, { ...STATUS, fence: granted }),
    'exec.start': (request, socket) => {
      starts.push(request['fence']);
      // A worker attaches between the first look at the fence and the start.
      if (starts.length === 1) granted = 2;
      underTheFence((...given) => answer(given[1], given[0], { known: false }))(request, socket);
    },
    'exec.wait': (request, socket) => answer(socket, request, EXITED),
    'exec.output': (request, socket) => {
      reads += 1;
      // And again before the output is read.
      if (reads === 1) granted = 3;
      underTheFence((...given) => {
        answer(given[1], given[0], { offset: given[0]['offset'] });
        given[1].end(given[0]['stream'] === 'stdout' ? 'abc' : '');
      })(request, socket);
    },
    'exec.ack': underTheFence((request, socket) => answer(socket, request, {})),
  });
  const output: string[] = [];
  const end = await execInVm(
    { dir: keeper.dir, vmKey: 'run/scope/0', env: {}, untilMs: null },
    { program: 'ls', args: [], cwd: '/workspace' },
    {
      input: null,
      write: (_, bytes) => Promise.resolve(void output.push(new TextDecoder().decode(bytes))),
      onInterrupt: () => ({ dispose: () => undefined }),
    },
    () => Promise.resolve(keeper.binary),
  );
  expect(end).toMatchObject({ reason: 'exited', exitCode: 0 });
  expect(starts).toEqual([1, 2]);
  expect(output.join('')).toBe('abc');
});
