import * as z from 'zod';
import { machineBytes, machinePlanOf, takenBy } from '../pipeline/machine-plan.ts';
import {
  ISOLATION_LEVELS,
  MOUNT_MODES,
  PLAN_KINDS,
  PLAN_LIMITS,
  PLAN_VERSION,
  type Plan,
  SANDBOX_MODES,
} from '../plan/plan.ts';
import { fromWire, planBytes, type PlanWire, type WorkWire } from '../plan/wire.ts';
import { environmentOf, hostVariablesOf, needsVm, stagesBefore } from '../plan/work.ts';
import { isPlanId } from '../run/instance.ts';
import { utf8Length } from '../units/utf8.ts';
import { NAME, type NumberRange, RANGES, scaled, SCALES, VARIABLE, VARIABLE_LIMITS } from './grammar/values.ts';
import { cycles } from './graph.ts';
import { sharesSource } from './mount-source.ts';
import { guestPathRefusal, mustStayWritable, normalizeAbsolute, overlaps, relativePath } from './paths.ts';

/** At most this many problems are named. */
const PROBLEMS_LIMIT = 50;

/** A plan that says its defaults as well is larger than it need be. */
const RECEIVED_BYTES = 2 * PLAN_LIMITS.planBytes;

const name = z
  .string()
  .regex(NAME, 'letters, digits, `.`, `_`, `-`, a letter or digit first')
  .max(PLAN_LIMITS.nameLength);
const scopeId = z
  .string()
  // One that is too long is told so, and nothing else.
  .refine((id) => isPlanId(id.slice(0, PLAN_LIMITS.nameLength)), 'letters, digits, `.`, `_`, `-`')
  .max(PLAN_LIMITS.nameLength);
const text = z.string().refine((value) => !value.includes('\0'), 'no zero byte');
const whole = (min: number, max: number) => z.number().int().min(min).max(max);
/** The range of a spec in a plan's unit. */
const within = ({ min, max }: NumberRange, scale?: number) => whole(scaled(min, scale), scaled(max, scale));
const absolute = text.refine((path) => normalizeAbsolute(path) === path, 'an absolute path without `.` and `..`');
const guestPath = absolute.refine((path) => guestPathRefusal(path) === null, 'a guest path outside of system folders');
const variable = z.string().regex(VARIABLE, 'letters, digits and `_`').max(VARIABLE_LIMITS.nameLength);

const env = z.strictObject({
  name: variable,
  value: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('literal'), text }),
    z.strictObject({ kind: z.literal('from-host'), fromHost: variable }),
  ]),
});

const run = z
  .strictObject({ program: text.min(1), args: z.array(text), cwd: text.startsWith('/'), env: z.array(env) })
  .partial({ args: true, cwd: true, env: true });
const stdin = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('none') }),
  z.strictObject({ kind: z.literal('stage-output'), stage: name }),
]);
const works = {
  command: run.extend({ kind: z.literal('command'), stdin: stdin.optional() }),
} satisfies Record<WorkWire['kind'], z.ZodType<WorkWire>>;
const work = z.discriminatedUnion('kind', [works.command]);
const edge = z.union([name, z.strictObject({ stage: name, on: z.enum(['success', 'end', 'failure']) })]);
const names = z.array(name).min(1).max(PLAN_LIMITS.stages);

const stage = z.strictObject({
  id: name,
  scope: scopeId.nullable(),
  after: z.array(edge).max(PLAN_LIMITS.stages),
  dependsOn: z.array(name).max(PLAN_LIMITS.stages),
  work,
  run,
  stdin,
  input: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('none') }),
    z.strictObject({ kind: z.literal('run-input') }),
    z.strictObject({ kind: z.literal('carry'), stage: name }),
    z.strictObject({ kind: z.literal('merge'), stages: names }),
  ]),
  inputs: z.array(z.strictObject({ fromStage: name, output: name, guestPath })),
  outputs: z.array(z.strictObject({ name, guestPath })),
  outputFile: guestPath.nullable(),
  timeoutMs: within(RANGES.timeoutSecs, SCALES.msPerSecond),
  retry: z.strictObject({
    maxAttempts: within(RANGES.attempts),
    backoffMs: within(RANGES.backoffSecs, SCALES.msPerSecond),
  }),
  // A spec counts in MiB, a plan in bytes.
  maxOutputBytes: whole(1, scaled(RANGES.outputMib.max, SCALES.bytesPerMib)),
});

const relative = text.refine(
  (path) => path !== '' && relativePath(path) === path,
  "a path from the spec's folder, without `.` and `..` but for `.` alone",
);
const source = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('host'), path: absolute }),
  z.strictObject({ kind: z.literal('spec-folder'), path: relative }),
]);

const sandbox = z.strictObject({
  mode: z.enum(SANDBOX_MODES),
  isolation: z.enum(ISOLATION_LEVELS),
  memoryMib: within(RANGES.memoryMib),
  vcpus: within(RANGES.vcpus),
  diskMib: within(RANGES.diskMib),
  mounts: z
    .array(
      z
        .strictObject({
          hostPath: absolute.optional(),
          source: source.optional(),
          guestPath,
          mode: z.enum(MOUNT_MODES),
        })
        .refine(
          (mount) => (mount.hostPath === undefined) !== (mount.source === undefined),
          'either `source` or `hostPath`',
        ),
    )
    .max(PLAN_LIMITS.mountsPerScope),
});

const plan = z.strictObject({
  version: z.literal(PLAN_VERSION),
  kind: z.enum(PLAN_KINDS),
  name,
  // Everything but these may be left out: see `domain/plan/wire.ts`.
  stages: z
    .array(
      stage
        .partial()
        .required({ id: true })
        .refine(({ work: one, run: other }) => (one === undefined) !== (other === undefined), 'either `work` or `run`')
        .refine(({ work: one, stdin: beside }) => one === undefined || beside === undefined, '`stdin` stands in `work`')
        .refine(
          ({ after: one, dependsOn: other }) => one === undefined || other === undefined,
          'either `after` or `dependsOn`',
        ),
    )
    .min(1)
    .max(PLAN_LIMITS.stages),
  scopes: z
    .array(z.strictObject({ id: scopeId, stages: names.optional(), sandbox: sandbox.partial().optional() }))
    .min(1)
    .max(PLAN_LIMITS.stages),
  output: z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('stage'), stage: name }),
    z.strictObject({ kind: z.literal('merge'), stages: names }),
  ]),
  maxParallel: within(RANGES.maxParallel),
  hostVariables: z.array(variable),
});

/**
 * Checks a plan that comes from outside, completely: shape, limits, references, cycles, mounts. It may leave
 * out what equals a default. What passes can be run by the machine and the activities without a further look.
 * @returns the plan, or what is wrong with it, at most `PROBLEMS_LIMIT` of it, each with its path
 */
export function checkPlan(value: unknown): { readonly plan: Plan } | { readonly problems: readonly string[] } {
  const size = jsonBytes(value);
  if (size === null) return { problems: ['the plan is not JSON'] };
  if (size > RECEIVED_BYTES) return { problems: [tooLarge(size)] };
  const parsed = plan.safeParse(value);
  if (!parsed.success)
    return {
      problems: parsed.error.issues
        .slice(0, PROBLEMS_LIMIT)
        .map(({ path, message }) => `${path.join('.') || 'plan'}: ${message}`),
    };
  const received: PlanWire = parsed.data;
  const checked = fromWire(received);
  const bytes = planBytes(checked);
  if (bytes > PLAN_LIMITS.planBytes) return { problems: [tooLarge(bytes)] };
  const held = machineBytes(machinePlanOf(checked));
  if (held > PLAN_LIMITS.machineBytes)
    return {
      problems: [
        `the names and edges of the plan's stages have ${held} bytes; at most ${PLAN_LIMITS.machineBytes} are allowed`,
      ],
    };
  const problems = [
    ...duplicateProblems(checked),
    ...scopeProblems(checked),
    ...referenceProblems(checked),
    ...mountProblems(checked),
    ...variableProblems(checked),
  ];
  return problems.length > 0 ? { problems: problems.slice(0, PROBLEMS_LIMIT) } : { plan: checked };
}

function tooLarge(bytes: number): string {
  return `the plan has ${bytes} bytes; at most ${PLAN_LIMITS.planBytes} are allowed`;
}

function jsonBytes(value: unknown): number | null {
  try {
    const json: string | undefined = JSON.stringify(value);
    return json === undefined ? null : utf8Length(json);
  } catch {
    // A cycle, a bigint or a getter that throws.
    return null;
  }
}

function duplicateProblems(checked: Plan): readonly string[] {
  const problems = [
    ...repeated(checked.stages.map(({ id }) => id)).map((id) => `two stages have the id ${id}`),
    ...repeated(checked.scopes.map(({ id }) => id)).map((id) => `two scopes have the id ${id}`),
  ];
  for (const { id, outputs, work, ...each } of checked.stages) {
    problems.push(
      ...repeated(outputs.map((output) => output.name)).map(
        (output) => `stage ${id} has two outputs with the name ${output}`,
      ),
    );
    problems.push(...repeated(stagesBefore(each)).map((other) => `stage ${id} depends on ${other} twice`));
    problems.push(
      ...repeated(environmentOf(work).map(({ name: variableName }) => variableName)).map(
        (twice) => `stage ${id} sets the variable ${twice} twice`,
      ),
    );
  }
  const outputs = checked.stages.reduce((sum, each) => sum + each.outputs.length, 0);
  if (outputs > PLAN_LIMITS.outputs)
    problems.push(`the plan has ${outputs} named outputs; at most ${PLAN_LIMITS.outputs} are allowed`);
  return problems;
}

/** Each stage is in exactly the scope that it names, and one that names none in none. */
function scopeProblems(checked: Plan): readonly string[] {
  const scopeOf = new Map(checked.stages.map(({ id, scope }) => [id, scope]));
  const problems = checked.scopes.flatMap((scope) =>
    scope.stages
      .filter((id) => scopeOf.get(id) !== scope.id)
      .map((id) => `scope ${scope.id} holds the stage ${id}, which is in ${scopeOf.get(id) ?? 'no'} scope`),
  );
  const held = new Map<string, number>();
  for (const id of checked.scopes.flatMap((scope) => scope.stages)) held.set(id, (held.get(id) ?? 0) + 1);
  for (const { id, scope, work } of checked.stages) {
    if (needsVm(work) && scope === null) problems.push(`stage ${id} needs a VM and has no scope`);
    if (scope !== null && held.get(id) !== 1) problems.push(`stage ${id} is held by ${held.get(id) ?? 0} scopes`);
  }
  return problems;
}

/** Whatever a stage takes is of a stage that it depends on, and nothing waits for itself. */
function referenceProblems(checked: Plan): readonly string[] {
  const index = new Map(checked.stages.map(({ id }, position) => [id, position]));
  const outputs = new Map(
    checked.stages.map(({ id, outputs: list }) => [id, new Set(list.map((output) => output.name))]),
  );
  const problems: string[] = [];
  for (const stage of checked.stages) {
    const { id, after, input, inputs } = stage;
    const dependencies = new Set(after.flatMap((each) => (each.on === 'success' ? [each.stage] : [])));
    for (const other of stagesBefore(stage))
      if (!index.has(other)) problems.push(`stage ${id} depends on ${other}, which does not exist`);
    for (const { stage: taken } of takenBy(stage))
      if (!dependencies.has(taken))
        problems.push(`stage ${id} takes data of ${taken} and does not depend on its success`);
    if (input.kind === 'merge')
      problems.push(...repeated(input.stages).map((source) => `stage ${id} merges ${source} twice`));
    for (const { fromStage, output } of inputs)
      if (index.has(fromStage) && !outputs.get(fromStage)!.has(output))
        problems.push(`stage ${id} takes the output ${output} of ${fromStage}, which does not have it`);
    problems.push(
      ...overlaps(inputs.map((each) => each.guestPath)).map(
        ([a, b]) => `stage ${id} has two inputs on or in each other: ${inputs[a]!.guestPath}, ${inputs[b]!.guestPath}`,
      ),
    );
  }
  const results = checked.output.kind === 'stage' ? [checked.output.stage] : checked.output.stages;
  for (const result of results)
    if (!index.has(result)) problems.push(`the output is of the stage ${result}, which does not exist`);
  problems.push(...repeated(results).map((result) => `the output merges ${result} twice`));
  if (problems.length > 0) return problems;
  const groups = cycles(checked.stages.map((stage) => stagesBefore(stage).map((other) => index.get(other)!)));
  return groups.map(
    (group) =>
      `stages wait for each other: ${group
        .slice(0, 20)
        .map((position) => checked.stages[position]!.id)
        .join(', ')}`,
  );
}

function mountProblems(checked: Plan): readonly string[] {
  return checked.scopes.flatMap(({ id, sandbox: { mode, isolation, mounts } }) => {
    const problems = overlaps(mounts.map((mount) => mount.guestPath)).map(
      ([a, b]) => `scope ${id} has two mounts on or in each other: ${mounts[a]!.guestPath}, ${mounts[b]!.guestPath}`,
    );
    mounts.forEach((mount, position) => {
      if (mount.mode === 'ro' && mustStayWritable(mount.guestPath))
        problems.push(`scope ${id} has a read-only mount on ${mount.guestPath}`);
      for (const other of mounts.slice(0, position)) {
        if (sharesSource(mount.source, other.source) && (mount.mode === 'rw' || other.mode === 'rw'))
          problems.push(
            `scope ${id} has a writable mount that shares host files with another: ${mount.source.path}, ${other.source.path}`,
          );
      }
    });
    if (mode === 'mock' && isolation !== 'none')
      problems.push(`scope ${id} demands isolation ${isolation} of the mock`);
    return problems;
  });
}

function variableProblems(checked: Plan): readonly string[] {
  const declared = new Set(checked.hostVariables);
  const read = new Set(hostVariablesOf(checked.stages));
  return [
    ...[...read]
      .filter((each) => !declared.has(each))
      .map((each) => `hostVariables lacks ${each}, which a stage reads`),
    ...[...declared].filter((each) => !read.has(each)).map((each) => `hostVariables has ${each}, which no stage reads`),
    ...repeated(checked.hostVariables).map((each) => `hostVariables has ${each} twice`),
  ];
}

function repeated(values: readonly string[]): readonly string[] {
  const seen = new Set<string>();
  const twice = new Set<string>();
  for (const value of values) (seen.has(value) ? twice : seen).add(value);
  return [...twice];
}
