/** The shapes of requests and answers. The OpenAPI document is made of them. */
import { z } from '@hono/zod-openapi';
import type { RunJson } from '../app/json/run-json.ts';
import type { CancelFact } from '../app/runs/cancel-run.ts';
import { KEY_CHARACTERS } from '../app/start/start-keyed.ts';
import { MAX_TAIL_LINES } from '../app/lines/log-lines.ts';
import type { RunEvent } from '../domain/run/event.ts';
import { RUN_ID_BYTES } from '../domain/run/run-id.ts';
import { parseSince, type Since, SINCE_RULE } from '../domain/run/since.ts';
import { countUtf8Bytes } from '../domain/units/utf8.ts';
import {
  GREP_CHARACTERS,
  MOST_RUNS,
  MOST_STAGES,
  MOST_WAIT_SECONDS,
  SINCE_CHARACTERS,
  STAGE_CHARACTERS,
  VARIABLES_BYTES,
} from './limits.ts';
import type { Problem } from './problems.ts';

/** A text that can be stored as UTF-8 without a change. */
export const Text = z.string().refine((text) => !/\p{Surrogate}/u.test(text), 'it is not Unicode text');

/** A mapping whose names a client chooses. Zod's copy of it leaves out `__proto__`, so a mapping with this name is refused. */
export function createMap<K extends z.ZodString, V extends z.ZodType>(name: K, value: V) {
  return z.preprocess(
    (given, context) => {
      if (typeof given === 'object' && given !== null && Object.hasOwn(given, '__proto__'))
        context.addIssue({ code: 'custom', path: ['__proto__'], message: 'a value cannot have this name' });
      return given;
    },
    z.record(name, value),
  );
}

export const Texts = createMap(Text, Text);

const Sha256 = z.string().regex(/^[0-9a-f]{64}$/, 'it is not a SHA-256 in 64 lower-case hexadecimal digits');

export const Variables = Texts.default({})
  .refine(
    (variables) =>
      Object.entries(variables).reduce(
        (size, [name, value]) => size + countUtf8Bytes(name) + countUtf8Bytes(value),
        0,
      ) <= VARIABLES_BYTES,
    `names and values have more than ${VARIABLES_BYTES} bytes`,
  )
  .openapi({ description: 'The only variables that the run may read, and settings such as VOIDBOX_LLM_MODEL.' });

/** A key that a body may leave out. JSON has no `undefined`, and the document knows only `optional`. */
export function allowAbsence<T extends z.ZodType>(schema: T): z.ZodExactOptional<T> {
  return schema.optional() as unknown as z.ZodExactOptional<T>;
}

export const StartBody = z
  .strictObject({
    spec: Text.min(1)
      .optional()
      .openapi({ description: 'The spec, as YAML or JSON. A start has either `spec` or `plan`.' }),
    plan: createMap(z.string(), z.unknown()).optional().openapi({
      description: 'A compiled plan, as `voidbox inspect --json` prints it. It has its parameters already.',
    }),
    baseDir: Text.optional().openapi({
      description:
        'The absolute path of the folder where relative paths of the spec start. The run may mount it and the folders below it. Absent: the folder of the uploads. A token may not name it.',
    }),
    uploads: createMap(Text, Sha256).default({}).openapi({
      description:
        'SHA-256 of uploaded tars, by the paths of the folders as the spec or the plan names them. Each tar has the content of its folder.',
    }),
    bundles: createMap(Text, Sha256).default({}).openapi({
      description:
        'SHA-256 of uploaded git bundles, by the paths of the repositories that workspaces name. Each has the references `refs/voidbox/commit` and `refs/voidbox/base`.',
    }),
    params: Texts.default({}).openapi({ description: 'Parameters of the spec.' }),
    input: Text.optional().openapi({ description: 'The input of the first stages.' }),
    runId: Text.optional().openapi({ description: `At most ${RUN_ID_BYTES} bytes. Absent: a generated id.` }),
    mock: z
      .union([z.literal('all'), z.array(Text).min(1)])
      .optional()
      .openapi({ description: 'Stages that return their `mock`: `all`, or their names.' }),
    mockAgents: z
      .boolean()
      .default(false)
      .openapi({ description: 'The mock agent plays every agent, without a model.' }),
    variables: Variables,
    allowMounts: z
      .array(Text)
      .default([])
      .openapi({ description: 'Absolute paths of further folders that this run may mount.' }),
    allowGit: z
      .array(Text)
      .default([])
      .openapi({ description: 'Repositories that this run may fetch with your git login, as HOST/PATH.' }),
  })
  .openapi('StartRun');

export const BlobPath = z.object({
  sha256: Sha256.openapi({ param: { name: 'sha256', in: 'path' }, description: 'The SHA-256 of the bytes.' }),
});

export const BlobSchema = z.object({ sha256: z.string(), sizeBytes: z.number() }).openapi('Blob');

export const RunPath = z.object({
  runId: z.string().openapi({
    param: { name: 'runId', in: 'path' },
    description: `The whole id, percent-encoded; at most ${RUN_ID_BYTES} bytes.`,
  }),
});

export const Seconds = z
  .string()
  .regex(/^\d{1,2}$/, 'it is not a number of seconds')
  .transform(Number)
  .refine((seconds) => seconds <= MOST_WAIT_SECONDS, `it is more than ${MOST_WAIT_SECONDS}`);

export const WaitQuery = z.strictObject({
  wait: Seconds.optional().openapi({
    type: 'string',
    description: `Seconds to wait for the end of the run; at most ${MOST_WAIT_SECONDS}, by default 0.`,
  }),
});

export const CancelQuery = WaitQuery.extend({
  finally: z
    .literal('keep')
    .optional()
    .openapi({ description: '`keep`: a second cancel does not end stages with `finally`.' }),
});

export const RunState = z.enum(['running', 'succeeded', 'failed', 'cancelled', 'terminated', 'damaged']);

export const IdempotencyHeader = z.object({
  'idempotency-key': z
    .string()
    .max(KEY_CHARACTERS)
    .optional()
    .openapi({
      description: `The same request with the same key acts once. At most ${KEY_CHARACTERS} ASCII characters.`,
    }),
});

/** The size of a page in a query, from 1 to the limit. */
export function createLimit(most: number, description: string) {
  return z
    .string()
    .regex(/^\d{1,4}$/, 'it is not a number')
    .transform(Number)
    .refine((limit) => limit >= 1 && limit <= most, `it is not between 1 and ${most}`)
    .optional()
    .openapi({ type: 'string', description });
}

export const ListQuery = z.strictObject({
  state: RunState.optional(),
  name: Text.optional().openapi({ description: 'The name of the spec.' }),
  since: z.iso
    .datetime({ offset: true })
    .optional()
    .openapi({ description: 'Only runs that started at this time or later, as ISO 8601.' }),
  limit: createLimit(MOST_RUNS, `The runs of a page; at most ${MOST_RUNS}, by default 50.`),
  cursor: z.string().optional().openapi({ description: '`next` of the previous page.' }),
});

const Sequence = z
  .string()
  .regex(/^\d{1,15}$/, 'it is not the `seq` of an event')
  .transform(Number);

export const Flag = z.enum(['true', 'false']).transform((text) => text === 'true');

const LOG_QUERY = {
  stage: Text.max(STAGE_CHARACTERS).optional().openapi({
    description: 'Only this stage, with all its items; or one item, such as `resize[3]` or `resize[3].cut`.',
  }),
  stream: z.enum(['stdout', 'stderr', 'both']).optional().openapi({ description: 'Only output of this stream.' }),
  since: z
    .string()
    .max(SINCE_CHARACTERS)
    .transform((text, context): Since => {
      const since = parseSince(text);
      if (since !== null) return since;
      context.addIssue({ code: 'custom', message: `it is not ${SINCE_RULE}` });
      return z.NEVER;
    })
    .optional()
    .openapi({ type: 'string', description: `As \`voidbox logs --since\`: ${SINCE_RULE}.` }),
  grep: Text.min(1)
    .max(GREP_CHARACTERS)
    .optional()
    .openapi({ description: 'Only lines that contain this text, which is no pattern.' }),
  tail: z
    .string()
    .regex(/^\d{1,5}$/, 'it is not a number')
    .transform(Number)
    .refine((tail) => tail <= MAX_TAIL_LINES, `it is more than ${MAX_TAIL_LINES}`)
    .optional()
    .openapi({ type: 'string', description: `Begins with this many last ones; at most ${MAX_TAIL_LINES}.` }),
};

export const EventsQuery = z.strictObject({
  after: Sequence.optional().openapi({ type: 'string', description: 'Only events after this `seq`.' }),
  output: z
    .enum(['true', 'false', 'only'])
    .optional()
    .openapi({ description: '`false`: without the output of stages; `only`: nothing else.' }),
  ...LOG_QUERY,
});

export const LogsQuery = z.strictObject({
  output: z
    .enum(['true', 'only'])
    .optional()
    .openapi({ description: '`only`: without lines about the states of stages and VMs.' }),
  timestamps: Flag.optional().openapi({ type: 'string', description: '`true`: the time (UTC) before each line.' }),
  tools: z
    .enum(['none', 'short', 'full'])
    .optional()
    .openapi({ description: 'The shown output of tools of agents; by default `short`: 2 KiB of each call.' }),
  ...LOG_QUERY,
});

export const EventsHeaders = z.object({
  'last-event-id': Sequence.optional().openapi({
    type: 'string',
    description: 'As `after`, and takes precedence. Browsers and clients of event streams set it when they resume.',
  }),
});

const Data = z.object({ sha256: z.string(), sizeBytes: z.number(), mediaType: z.string() });
const Failure = z.object({ code: z.string(), message: z.string(), stderrTail: z.string() });
const Names = z.array(z.string()).readonly();

const StageSchema = z
  .object({
    id: z.string(),
    state: z.string(),
    attempt: z.number(),
    exitCode: z.number().nullable(),
    durationMs: z.number().nullable(),
    failure: Failure.nullable(),
  })
  .openapi('Stage', { description: 'Has further fields: those of `voidbox status --json`.' });

const RUN_FIELDS = {
  runId: z.string(),
  name: z.string(),
  kind: z.string(),
  state: z.string(),
  host: z.string(),
  mocked: Names,
  mockAgents: Names,
  startedAt: z.string().nullable(),
  finishedAt: z.string().nullable(),
  stages: z.array(StageSchema).readonly(),
  failedStage: z.string().nullable(),
  failure: Failure.nullable(),
  tolerated: Names,
  output: Data.nullable(),
  damage: z.string().nullable(),
};
const DESCRIPTION = 'Has further fields: those of `voidbox status --json`.';

export const RunSchema = z.object(RUN_FIELDS).openapi('Run', { description: DESCRIPTION });

export const ResultSchema = z
  .object({
    ...RUN_FIELDS,
    outputText: z
      .string()
      .nullable()
      .openapi({ description: 'Null if the output has more than 1 MiB or is not text.' }),
  })
  .openapi('Result', { description: DESCRIPTION });

export const StagesQuery = z.strictObject({
  limit: createLimit(MOST_STAGES, `The stages of a page; at most ${MOST_STAGES}, which is the default.`),
  cursor: z
    .string()
    .regex(/^\d{1,5}$/, 'it is not the `next` of a page')
    .transform(Number)
    .optional()
    .openapi({ type: 'string', description: '`next` of the previous page.' }),
});

export const StageListSchema = z
  .object({
    stages: z.array(StageSchema).readonly(),
    next: z.string().nullable().openapi({ description: 'The `cursor` of the next page; null if no stage follows.' }),
  })
  .openapi('StageList');

export const RunListSchema = z
  .object({
    runs: z.array(RunSchema).readonly(),
    next: z.string().nullable().openapi({ description: 'The `cursor` of the next page; null if no run follows.' }),
  })
  .openapi('RunList');

export const DiagnosticSchema = z
  .object({
    code: z.string(),
    severity: z.enum(['error', 'warning']),
    message: z.string(),
    remedy: z.string(),
    file: z.string(),
    line: z.number(),
    column: z.number(),
  })
  .openapi('Diagnostic');

export const StartedSchema = z
  .object({
    runId: z.string(),
    diagnostics: z.array(DiagnosticSchema).readonly(),
    // A nullable `ResultSchema` would make every result of the document nullable.
    run: z.union([ResultSchema, z.null()]).openapi({ description: 'The run after `wait`; null without it.' }),
  })
  .openapi('StartedRun');

export const CancelSchema = z
  .object({
    runId: z.string(),
    state: z.string().openapi({ description: '`cancelling`: it has not ended yet.' }),
    wasRunning: z.boolean(),
  })
  .openapi('CancelledRun');

export const EventSchema = z
  .object({
    seq: z.number(),
    id: z.string(),
    atMs: z.number(),
    body: z.object({ type: z.string() }).openapi({ description: 'Has further fields, by its type.' }),
  })
  .openapi('Event');

export const ProblemSchema = z
  .object({
    status: z.number(),
    title: z.string(),
    code: z.string(),
    detail: z.string(),
    remedy: z.string().nullable(),
    fault: z.enum(['usage', 'environment', 'failed']).openapi({
      description: 'Repaired in the request, in the machine or its server, or in the run.',
    }),
    diagnostics: z.array(DiagnosticSchema).readonly().optional(),
  })
  .openapi('Problem');

export const HealthSchema = z.object({ status: z.literal('ok') }).openapi('Health');
export const VersionSchema = z.object({ version: z.string(), api: z.literal('v1') }).openapi('Version');

/** The compiler proves here that answers have the fields which the document promises. */
export type PromisedShapes = [
  Promised<RunJson, z.input<typeof RunSchema>>,
  Promised<RunJson & { readonly outputText: string | null }, z.input<typeof ResultSchema>>,
  Promised<CancelFact, z.input<typeof CancelSchema>>,
  Promised<RunEvent, z.input<typeof EventSchema>>,
  Promised<Problem, z.input<typeof ProblemSchema>>,
];

type Promised<Given extends Wanted, Wanted> = [Given, Wanted];
