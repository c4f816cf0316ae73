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
