/**
 * The results that an attempt makes of its command: its texts, its output, its failure and its usage. VMs are mocks,
 * stores are files.
 */
import { Buffer } from 'node:buffer';
import { beforeEach, describe, expect, test } from 'vitest';
import type { JsonValue } from '../../domain/plan/plan.ts';
import { EVENT_ID } from '../../domain/run/event-id.ts';
import { OUTPUT_SCHEMA_LIMITS } from '../../domain/language/schema/output-schema.ts';
import { begin, commandWork, request, RUN, useStageAttempts } from '../../test/rig/runs/stage-attempts.ts';
import type { ActivityDeps } from '../deps.ts';
import type { VmUsage } from '../ports/sandbox.ts';
import type { StageRequest } from '../calls/requests.ts';

const rig = useStageAttempts({
  /** Prints escape sequences around its last words, then fails. */
  colours: async ({ write }) => {
    await write('stderr', '\u001b[31merror:\u001b[0m no rule\n\u001b]0;a title\u0007');
    return 1;
  },
  /** Prints an object with a key that TOKEN names, and a text of SIZE characters. */
  'print-json': async ({ env, write }) => {
    await write(
      'stdout',
      JSON.stringify({ ok: 'yes', [env['TOKEN'] ?? 'key']: 1, text: 'x'.repeat(Number(env['SIZE'] ?? 0)) }),
    );
    return 0;
  },
});

describe('what a stage took', () => {
  /** A backend whose host reports this usage for its VMs. */
  const telling = (usage: VmUsage): Partial<ActivityDeps> => ({
    backendFor: () => ({
      ...rig.backend,
      launch: async (...args) => ({ ...(await rig.backend.launch(...args)), usage: async () => usage }),
    }),
  });

  test('is in its result, also after a failure', async () => {
    const usage = { cpuMs: 1_500, memoryPeakMib: 300, diskBytes: 8_192 };
    const { result } = begin(rig.processDeps(telling(usage)), request('colours'));
    expect(await result).toMatchObject({ outcome: 'failed' });
    expect((await result).usage).toEqual({ vmCpuMs: 1_500, vmMemoryPeakMib: 300, vmDiskBytes: 8_192 });
    expect((await begin(rig.processDeps(), request('colours')).result).usage, 'the one that is durable').toEqual(
      (await result).usage,
    );
  });

  test('is absent if the host does not report it', async () => {
    const unknown = { cpuMs: null, memoryPeakMib: null, diskBytes: 0 };
    expect((await begin(rig.processDeps(telling(unknown)), request('colours')).result).usage).toEqual({
      vmDiskBytes: 0,
    });
  });
});

test('a failure contains the last lines without escape sequences, because every client of Temporal prints them', async () => {
  const result = await begin(rig.processDeps(), request('colours', { work: commandWork('colours') })).result;
  expect(result.failure).toMatchObject({ code: 'stage/exit-nonzero', stderrTail: 'error: no rule\n' });
});

describe('a command with outputs in its arguments', () => {
  const greeting = async (output: string): Promise<StageRequest> => {
    const ref = await rig.stores.artifacts.put([Buffer.from(output)] as never, 'text/plain');
    const asked = request('echo', {
      work: commandWork('echo', { args: ['-n', 'as written'] }),
      texts: {
        sources: ['stages.who.json.name'],
        stages: ['who'],
        params: {},
        texts: [{ place: { kind: 'arg', index: 1 }, parts: ['Hello ', 0] }],
      },
    });
    return { ...asked, upstream: { who: { output: ref, outputs: {} } } };
  };

  test('gets the outputs as they were printed', async () => {
    const result = await begin(rig.processDeps(), await greeting('{"name":"$(id) \'Ada\'"}')).result;
    expect(result.outcome).toBe('succeeded');
    expect(await rig.storedOutput()).toBe("Hello $(id) 'Ada'");
  });

  test('fails permanently before it has a VM if a value cannot be made', async () => {
    const asked = await greeting('{}');
    const result = await begin(rig.processDeps(), asked).result;
    expect(result).toMatchObject({
      outcome: 'failed',
      failure: {
        code: 'stage/expression',
        message: expect.stringMatching(
          /^stage talk cannot start: the expression `stages.who.json.name`: no such key: name/,
        ) as string,
      },
    });
    expect(await begin(rig.processDeps(), asked).result).toEqual(result);
    const types = await rig.typesOf();
    expect(types.filter((type) => type === 'stage-finished')).toHaveLength(1);
    expect(types).not.toContain('vm-started');
  });

  test('that already runs does not fail because a value cannot be made again', async () => {
    const asked = await greeting('{}');
    const started = { type: 'stage-started', stage: 'talk', execKey: asked.execKey, attempt: 1 } as const;
    await rig.events.append(RUN, [{ id: EVENT_ID.attempt(asked.execKey, 'started'), atMs: 0, body: started }]);
    await expect(begin(rig.processDeps(), asked).result).rejects.toThrow(/its texts cannot be made again/);
    expect(await rig.typesOf()).not.toContain('stage-finished');
  });
});

describe('an output with a schema', () => {
  const printing = (outputSchema: JsonValue, size = 0): StageRequest =>
    request('print-json', {
      work: commandWork('print-json', {
        env: [
          { name: 'TOKEN', value: { kind: 'from-host', fromHost: 'TOKEN' } },
          { name: 'SIZE', value: { kind: 'literal', text: String(size) } },
        ],
      }),
      outputSchema,
      maxOutputBytes: 4 * 1024 * 1024,
    });

  beforeEach(() => rig.stores.hostVariables.put(RUN, { TOKEN: 'hunter2-hunter2' }));

  test('that fits is the output of the stage', async () => {
    const result = await begin(rig.processDeps(), printing({ properties: { ok: { const: 'yes' } } })).result;
    expect(result).toMatchObject({ outcome: 'succeeded', output: { sizeBytes: expect.any(Number) as number } });
  });

  test('that does not fit fails the stage, and the failure contains no secret', async () => {
    const schema = { properties: { ok: { type: 'boolean' }, text: true }, additionalProperties: false };
    const result = await begin(rig.processDeps(), printing(schema)).result;
    expect(result).toMatchObject({
      outcome: 'failed',
      output: null,
      failure: {
        code: 'stage/output-schema',
        message:
          'stage talk has an output that does not match its `output_schema`: the output must NOT have additional properties: "[redacted]"; /ok must be boolean; Voidbox replaced the value of TOKEN with [redacted]',
      },
    });
  });

  test('that is too large for a schema is not read', async () => {
    const checkOutput: ActivityDeps['checkOutput'] = () => Promise.reject(new Error('asked'));
    const result = await begin(rig.processDeps({ checkOutput }), printing({}, OUTPUT_SCHEMA_LIMITS.outputBytes)).result;
    expect(result.failure).toMatchObject({
      code: 'stage/output-schema',
      message: expect.stringContaining('with a schema at most 1048576 are allowed') as string,
    });
  });
});
