/**
 * Values of the host in an attempt: which values a stage gets, and that no event, result or error contains them. VMs
 * are mocks, stores are files.
 */
import type { ApplicationFailure } from '@temporalio/common';
import { describe, expect, test } from 'vitest';
import { CodedError } from '../../domain/errors/coded-error.ts';
import type { CommandWork } from '../../domain/plan/plan.ts';
import { sanitize } from '../../domain/security/sanitize.ts';
import { begin, commandWork, request, RUN, useStageAttempts } from '../../test/rig/runs/stage-attempts.ts';
import type { ActivityDeps } from '../deps.ts';
import type { Sandbox } from '../ports/sandbox.ts';

const rig = useStageAttempts({
  /** Prints its environment's TOKEN on both streams, in two writes each, then fails. */
  leak: async ({ env, write }) => {
    const token = env['TOKEN'] ?? '';
    for (const stream of ['stdout', 'stderr'] as const) {
      await write(stream, `token ${token.slice(0, 4)}`);
      await write(stream, `${token.slice(4)} end\n`);
    }
    return 1;
  },
  /** Does the same with a change of color inside TOKEN, which readers of logs remove. */
  'leak-in-color': async ({ env, write }) => {
    const token = env['TOKEN'] ?? '';
    for (const stream of ['stdout', 'stderr'] as const)
      for (const piece of [`token ${token.slice(0, 4)}`, '\u001b[', '0m', `${token.slice(4)} end\n`])
        await write(stream, piece);
    return 1;
  },
  /** Leaves a link that leads out, with TOKEN as its name, in an output. */
  'leak-by-name': async ({ env, files }) => {
    files.link('/workspace/output/link', `/${env['TOKEN']}`);
    return 0;
  },
});

describe('values of the host', () => {
  const leaking = request('leak', {
    work: commandWork('leak', { env: [{ name: 'TOKEN', value: { kind: 'from-host', fromHost: 'TOKEN' } }] }),
  });

  test('are not in events or results', async () => {
    await rig.stores.hostVariables.put(RUN, { TOKEN: 'hunter2-hunter2' });
    const result = await begin(rig.processDeps(), leaking).result;
    expect(result.failure).toMatchObject({ code: 'stage/exit-nonzero', stderrTail: 'token [redacted] end\n' });
    expect(await storedTexts()).toEqual(['token [redacted] end\n', 'token [redacted] end\n']);
  });

  test('a value with a change of color inside is not in events or results', async () => {
    await rig.stores.hostVariables.put(RUN, { TOKEN: 'hunter2-hunter2' });
    const result = await begin(rig.processDeps(), {
      ...leaking,
      stage: { ...leaking.stage, work: { ...(leaking.stage.work as CommandWork), program: 'leak-in-color' } },
    }).result;
    expect(result.failure?.stderrTail).toBe('token [redacted] end\n');
    expect((await storedTexts()).map(sanitize)).toEqual(['token [redacted] end\n', 'token [redacted] end\n']);
  });

  test('that no client handed over are named in the failure', async () => {
    const failure = await begin(rig.processDeps(), leaking).result.catch((error: ApplicationFailure) => error);
    expect(failure).toMatchObject({
      type: 'host/variable-missing',
      nonRetryable: true,
      message: expect.stringContaining('TOKEN'),
    });
    expect(rig.backend.alive()).toEqual([]);
  });

  test('are not in errors about files whose names contain them', async () => {
    await rig.stores.hostVariables.put(RUN, { TOKEN: 'hunter2-hunter2' });
    const { env } = leaking.stage.work as CommandWork;
    const naming = request('leak-by-name', {
      work: commandWork('leak-by-name', { env }),
      outputs: [{ name: 'files', guestPath: '/workspace/output' }],
    });
    const { failure } = await begin(rig.processDeps(), naming).result;
    expect(failure).toMatchObject({
      code: 'stage/bad-output',
      message: expect.stringContaining('is a link to /[redacted], which leads out'),
    });
  });

  test('are not in a failure of the VM that quotes its request', async () => {
    await rig.stores.hostVariables.put(RUN, { TOKEN: 'hunter2-hunter2' });
    const exec: Sandbox['exec'] = (command) =>
      Promise.reject(new CodedError('vm/lost', `exec ${JSON.stringify(command.env)} broke`, { cause: command }));
    const backendFor: ActivityDeps['backendFor'] = () => ({
      ...rig.backend,
      launch: async (...args) => ({ ...(await rig.backend.launch(...args)), exec }),
    });
    await expect(begin(rig.processDeps({ backendFor }), leaking).result).rejects.toMatchObject({
      type: 'vm/lost',
      message: expect.stringContaining('exec {"TOKEN":"[redacted]"} broke') as string,
    });
    expect(await lostReasons()).toEqual([expect.stringContaining('"[redacted]"')]);
  });

  async function lostReasons(): Promise<string[]> {
    const reasons: string[] = [];
    for await (const { body } of rig.stores.reader.read(RUN, 0)) if (body.type === 'vm-lost') reasons.push(body.reason);
    return reasons;
  }

  test('that are too large for the redactor are refused before a VM starts', async () => {
    await rig.stores.hostVariables.put(RUN, { TOKEN: 'x'.repeat(65_537) });
    const failure = await begin(rig.processDeps(), leaking).result.catch((error: ApplicationFailure) => error);
    expect(failure).toMatchObject({
      type: 'host/variable-too-large',
      nonRetryable: true,
      message: expect.stringContaining('65537 bytes together (most of them in TOKEN'),
    });
    expect(rig.backend.alive()).toEqual([]);
  });

  test('are redacted in the output of a stage that does not read them itself', async () => {
    await rig.stores.hostVariables.put(RUN, { OTHER: 'hunter2-hunter2', SHORT: 'abc' });
    const literal = commandWork('leak', {
      env: [{ name: 'TOKEN', value: { kind: 'literal', text: 'hunter2-hunter2' } }],
    });
    const what = { ...request('leak', { work: literal }), hostVariables: ['OTHER', 'SHORT'] };
    const result = await begin(rig.processDeps(), what).result;
    expect(result.failure).toMatchObject({ stderrTail: 'token [redacted] end\n' });
    expect(await storedTexts()).toEqual(['token [redacted] end\n', 'token [redacted] end\n']);
    // The stage that reads a value reports if the value is too short; this stage does not read it.
    expect(await notices()).toEqual([]);
  });

  test('that are optional and not set are empty, and the log has one notice', async () => {
    const env = (name: string) => [{ name, value: { kind: 'from-host', fromHost: name, ifUnset: 'empty' } }] as const;
    const asking = request('leak', { work: commandWork('leak', { env: env('TOKEN') }) });
    const result = await begin(rig.processDeps(), asking).result;
    expect(result.failure).toMatchObject({ stderrTail: 'token  end\n' });
    expect(await notices()).toEqual([expect.stringContaining('the variable TOKEN is not set on the host')]);
  });

  test('that a client handed over take precedence over values that this worker lends', async () => {
    const lentVariables = { read: () => Promise.resolve({ TOKEN: 'lent-lent-lent', OTHER: 'x' }) };
    const { failure } = await begin(rig.processDeps({ lentVariables }), leaking).result;
    expect(failure?.stderrTail).toBe('token [redacted] end\n');
    expect(await storedTexts()).toEqual(['token [redacted] end\n', 'token [redacted] end\n']);
  });

  async function notices(): Promise<string[]> {
    const messages: string[] = [];
    for await (const { body } of rig.stores.reader.read(RUN, 0))
      if (body.type === 'notice') messages.push(body.message);
    return messages;
  }

  async function storedTexts(): Promise<string[]> {
    const texts = { stdout: '', stderr: '' };
    for await (const { body } of rig.stores.reader.read(RUN, 0))
      if (body.type === 'output') texts[body.stream] += body.data;
    return [texts.stdout, texts.stderr];
  }
});
