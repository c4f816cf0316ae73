/**
 * Redaction that changes outputs: the notice of the stage that produced the output, and the failures of stages that
 * read it. VMs are mocks, stores are files.
 */
import { Buffer } from 'node:buffer';
import { describe, expect, test } from 'vitest';
import { REDACTED_LIMITS, type DataRef } from '../../domain/plan/plan.ts';
import type { StageResult } from '../../domain/run/stage-result.ts';
import { createRedactor } from '../../domain/security/redactor.ts';
import { evaluateCondition as evaluate, evaluateTexts } from '../../domain/language/expression/evaluate.ts';
import { begin, commandWork, request, RUN, useStageAttempts } from '../../test/rig/runs/stage-attempts.ts';
import { evaluateCondition } from '../decisions/conditions.ts';
import { mergeOutputs } from '../items/merge-outputs.ts';
import { redactWhole } from './redacted-data.ts';
import type { StageRequest } from '../calls/requests.ts';

const rig = useStageAttempts({
  /** Prints its first argument, with the value of PORT for each `PORT`. */
  print: async ({ args, env, write }) => {
    await write('stdout', args[0]!.replaceAll('PORT', env['PORT'] ?? ''));
    return 0;
  },
  fail: () => Promise.resolve(3),
});

const PORT = { name: 'PORT', value: { kind: 'from-host', fromHost: 'S_NUM' } } as const;

async function printed(text: string): Promise<StageResult> {
  await rig.stores.hostVariables.put(RUN, { S_NUM: '123456' });
  return await begin(rig.processDeps(), request('print', { work: commandWork('print', { args: [text], env: [PORT] }) }))
    .result;
}

async function notices(): Promise<unknown[]> {
  const found: unknown[] = [];
  for await (const { body } of rig.stores.reader.read(RUN, 0))
    if (body.type === 'notice') found.push([body.level, body.message]);
  return found;
}

async function redactedRef(text: string, breaksJson: boolean): Promise<DataRef> {
  const ref = await rig.stores.artifacts.put([Buffer.from(text)] as never, 'text/plain');
  return { ...ref, redacted: { variables: ['S_NUM'], breaksJson } };
}

const of = (output: DataRef): Pick<StageRequest, 'upstream'> => ({ upstream: { leak: { output, outputs: {} } } });

describe('the stage that made an output', () => {
  test('gets a warning if redaction broke its JSON, and the ref names the variable', async () => {
    const { output } = await printed('{"port": PORT}');
    expect(output?.redacted).toEqual({ variables: ['S_NUM'], breaksJson: true });
    expect(await notices()).toEqual([
      [
        'warning',
        'the output of stage talk was changed: Voidbox replaced the value of S_NUM with [redacted], so it is no longer JSON: print such a value within a string',
      ],
    ]);
  });

  test.each(['{"port": "PORT"}', 'port PORT'])('gets a notice if redaction changed it otherwise: %#', async (text) => {
    const { output } = await printed(text);
    expect(output?.redacted).toEqual({ variables: ['S_NUM'], breaksJson: false });
    expect(await notices()).toEqual([
      ['info', 'the output of stage talk was changed: Voidbox replaced the value of S_NUM with [redacted]'],
    ]);
  });

  test('gets no notice if nothing was redacted', async () => {
    const { output } = await printed('{"port": 80}');
    expect(output).not.toHaveProperty('redacted');
    expect(await notices()).toEqual([]);
  });

  test('gets one notice for all its items', async () => {
    await rig.stores.hostVariables.put(RUN, { S_NUM: '123456' });
    const asked = request('print', { work: commandWork('print', { args: ['[PORT]'], env: [PORT] }) });
    for (const item of [0, 1]) {
      const instance = [{ part: 'talk', item }];
      await begin(rig.processDeps(), { ...asked, instance, execKey: `talk[${item}]/0/1` }).result;
    }
    expect(await notices()).toEqual([['warning', expect.stringContaining('stage talk[0] was changed')]]);
  });

  test('gets a failure that names the variable if the output does not fit its schema', async () => {
    await rig.stores.hostVariables.put(RUN, { S_NUM: '123456' });
    const work = commandWork('print', { args: ['{"port": PORT}'], env: [PORT] });
    const deps = rig.processDeps({ checkOutput: () => Promise.resolve({ problem: 'it is not JSON' }) });
    const { failure } = await begin(deps, request('print', { work, outputSchema: {} })).result;
    expect(failure).toMatchObject({
      code: 'stage/output-schema',
      message: expect.stringMatching(
        /it is not JSON; Voidbox replaced the value of S_NUM with \[redacted\]$/,
      ) as string,
    });
  });
});

describe('the stage that reads an output', () => {
  const reading = (program: string): StageRequest =>
    request(program, { work: commandWork(program, { args: ['x'], stdin: { kind: 'stage-output', stage: 'leak' } }) });

  test('does not start with broken JSON as its standard input', async () => {
    const output = await redactedRef('{"port": [redacted]}', true);
    const result = await begin(rig.processDeps(), { ...reading('print'), ...of(output) }).result;
    expect(result).toMatchObject({
      outcome: 'failed',
      failure: {
        code: 'stage/input-redacted',
        message:
          'stage talk uses the output of stage leak with `stdin_from`, which is no longer JSON: Voidbox replaced the value of S_NUM with [redacted]. Let leak print such a value within a string',
      },
    });
    expect(await rig.typesOf()).not.toContain('stage-started');
  });

  test('names the variable if its command fails', async () => {
    const output = await redactedRef('{"port": "[redacted]"}', false);
    const { failure } = await begin(rig.processDeps(), { ...reading('fail'), ...of(output) }).result;
    expect(failure?.message).toBe(
      'stage talk ended with exit code 3; in the output of stage leak, which it takes, Voidbox replaced the value of S_NUM with [redacted]',
    );
  });

  test('succeeds with text', async () => {
    const output = await redactedRef('port [redacted]', false);
    expect((await begin(rig.processDeps(), { ...reading('print'), ...of(output) }).result).outcome).toBe('succeeded');
  });

  test('names the variable in the failures of its expressions', async () => {
    const output = await redactedRef('{"port": [redacted]}', true);
    const asked = request('print', {
      work: commandWork('print', { args: ['x'] }),
      texts: {
        sources: ['stages.leak.json.port'],
        stages: ['leak'],
        params: {},
        texts: [{ place: { kind: 'arg', index: 0 }, parts: [0] }],
      },
    });
    const deps = rig.processDeps({ evaluateTexts: (...asked) => Promise.resolve(evaluateTexts(...asked)) });
    const { failure } = await begin(deps, { ...asked, ...of(output) }).result;
    expect(failure).toMatchObject({
      code: 'stage/expression',
      message: expect.stringContaining(
        'Voidbox replaced the value of S_NUM with [redacted]: print such a value within a string',
      ) as string,
    });
    const condition = evaluateCondition(
      { ...deps, evaluate: (...asked) => Promise.resolve(evaluate(...asked)) },
      {
        runId: RUN,
        stage: 'talk',
        instance: [],
        when: { source: 'stages.leak.json.port > 1', stages: ['leak'], params: {} },
        handsOn: null,
        runInput: null,
        upstream: { leak: { state: 'succeeded', attempt: 0, output } },
        events: [],
      },
    );
    await expect(condition).rejects.toThrow('Voidbox replaced the value of S_NUM with [redacted]');
  });
});

test('a merge names the variables of its parts, and is JSON', async () => {
  const parts = [
    { name: 'a', output: await redactedRef('{"port": [redacted]}', true) },
    { name: 'b', output: await rig.stores.artifacts.put([Buffer.from('{}')] as never, 'text/plain') },
  ];
  expect((await mergeOutputs(rig.stores.artifacts, parts)).redacted).toEqual({
    variables: ['S_NUM'],
    breaksJson: false,
  });
});

test('the answer of an agent has the names of what was redacted in it', () => {
  const redactor = createRedactor([{ name: 'KEY', value: '123456' }]);
  expect(redactWhole('{"a": 123456}', redactor)).toEqual({
    text: '{"a": [redacted]}',
    changes: { variables: ['KEY'], breaksJson: true },
  });
  expect(redactWhole('{"a": 1}', redactor).changes).toBeNull();
  const long = `["${'x'.repeat(REDACTED_LIMITS.jsonBytes)}", 123456]`;
  expect(redactWhole(long, redactor).changes).toEqual({ variables: ['KEY'], breaksJson: false });
});
