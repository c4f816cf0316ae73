/**
 * The description of a Plan in its wire form (`wire.ts`), from which every reader of plans is generated. A field of the
 * Plan has a line here and a line in its type, where its comment is. The compiler finds each difference (`Compared`, at
 * the end).
 */
import {
  count,
  type DifferentKeys,
  either,
  exactly,
  flag,
  json,
  kinds,
  list,
  map,
  type NoKeys,
  type Node,
  nullable,
  number,
  object,
  optional,
  text,
  type TypeOf,
  word,
} from './description.ts';
import { EGRESS_LIMITS, type EgressPlan, type EgressRule } from './egress.ts';
import {
  AGENT_MODES,
  type AgentSkill,
  type BudgetPlan,
  type ConditionValue,
  type EachPlan,
  EDGE_CONDITIONS,
  type EdgePlan,
  type EnvPlan,
  FIELD_TYPES,
  ISOLATION_LEVELS,
  type JsonValue,
  LLM_PROVIDERS,
  type LlmPlan,
  MOUNT_MODES,
  type MountSource,
  ON_LIMITS,
  PLAN_KINDS,
  PLAN_LIMITS,
  PLAN_VERSION,
  SANDBOX_MODES,
  type TextsPlan,
  TIMEOUT_ANSWERS,
  type WorkspacePlan,
} from './plan.ts';
import type {
  ConditionWire,
  FieldWire,
  MockWire,
  MountWire,
  PlanWire,
  SandboxWire,
  ScopeWire,
  StageWire,
  WorkWire,
} from './wire.ts';

const name = text('name');
const names = list(name, { least: 1, most: PLAN_LIMITS.stages });
const stagesRead = list(name, { most: PLAN_LIMITS.stages });
const guestPath = text('guest-path');
const reference = text('reference');
const always = exactly(true);
const stageRef = object({ stage: name });
const stageRefs = object({ stages: names });
const nothing = object({});

const env = object({
  name: text('variable'),
  value: kinds({
    literal: object({ text: text('text') }),
    'from-host': object({ fromHost: text('variable'), ifUnset: optional(exactly('empty')) }),
  }),
});
const envs = list(env);

const source = kinds({
  host: object({ path: text('absolute-path') }),
  'spec-folder': object({ path: text('spec-folder-path') }),
});

const field = object(
  {
    name,
    type: optional(word(FIELD_TYPES)),
    required: optional(flag),
    description: optional(text('field-description')),
    choices: optional(list(text('label'), { most: PLAN_LIMITS.choices })),
  },
  'approval-field',
);

const skill = kinds({
  agent: object({ name }),
  file: object({ source }),
  remote: object({ repository: text('repository'), skill: nullable(text('repository-folder')) }),
  cli: object({ name }),
  mcp: object({ name }),
  image: object({ image: reference, guestPath, readOnly: flag }),
  server: object({ command: text('some-text'), args: list(text('text')), env: envs }),
  inline: object({ name, content: text('text') }),
});
const skills = list(skill, { most: PLAN_LIMITS.skills });

const llm = object({
  provider: word(LLM_PROVIDERS),
  model: nullable(reference),
  baseUrl: nullable(reference),
  apiKeyEnv: nullable(text('variable')),
  credentialProxy: flag,
  price: optional(
    object({
      inputUsd: number('price-usd'),
      cachedInputUsd: optional(number('price-usd')),
      outputUsd: number('price-usd'),
    }),
  ),
});

const budget = object(
  {
    maxCostUsd: optional(number('cost-usd')),
    maxTokens: optional(count('tokens')),
    maxTurns: optional(count('turns')),
  },
  'budget',
);

// No program gets these values, so they may contain a zero byte.
const mockFields = { output: optional(text('mock-output')), exitCode: optional(count('exit-code')) };
const mock = object(mockFields);

const work = kinds({
  command: object({
    program: text('some-text'),
    args: optional(list(text('text'))),
    cwd: optional(text('working-folder')),
    env: optional(envs),
    stdin: optional(kinds({ none: nothing, 'stage-output': stageRef })),
    service: optional(always),
  }),
  approval: object(
    {
      message: text('message'),
      by: optional(list(text('label'), { most: PLAN_LIMITS.approvers })),
      selfApproval: optional(flag),
      timeoutMs: optional(nullable(count('approval-ms'))),
      onTimeout: optional(word(TIMEOUT_ANSWERS)),
      fields: optional(list(field, { most: PLAN_LIMITS.approvalFields })),
    },
    'approval',
  ),
  wait: object(
    {
      forMs: optional(nullable(count('wait-ms'))),
      untilMs: optional(nullable(number('date-ms'))),
      until: optional(text('some-text')),
    },
    'wait',
  ),
  part: object({
    source: reference,
    stages: names,
    output: kinds({
      stage: stageRef,
      merge: object({ of: list(object({ name, stage: name }), { least: 1, most: PLAN_LIMITS.stages }) }),
    }),
  }),
  agent: object(
    {
      mode: optional(word(AGENT_MODES)),
      prompt: text('text'),
      llm: optional(nullable(llm)),
      skills: optional(skills),
      env: optional(envs),
      messaging: optional(flag),
      budget: optional(budget),
      played: optional(always),
    },
    'agent',
  ),
  skill: object({
    source,
    params: optional(json<Readonly<Record<string, JsonValue>>>('params')),
    llm: optional(nullable(llm)),
    skills: optional(skills),
    env: optional(envs),
    budget: optional(budget),
    code: optional(object({ skill: text('text'), version: text('text'), codeHash: text('sha256') })),
    played: optional(always),
  }),
  shell: object({ env: optional(envs) }),
  mock,
});

const edge = object({ stage: name, on: word(EDGE_CONDITIONS) });

const params = map('name', json<ConditionValue>('condition-value'));
const conditionSource = text('expression');
/** The condition of a loop. It has no optional fields. */
const wholeCondition = object({ source: conditionSource, stages: stagesRead, params });
const condition = object({ source: conditionSource, stages: optional(stagesRead), params: optional(params) });

const each = object({
  list: kinds({
    inline: object({ items: list(json<JsonValue>('item'), { most: PLAN_LIMITS.items }) }),
    'stage-output': object({ stage: name, path: list(text('text'), { most: PLAN_LIMITS.listPath }) }),
  }),
  maxParallel: count('max-parallel'),
  failFast: flag,
  allowFailures: count('allowed-failures'),
});

const texts = object({
  sources: list(text('expression'), { least: 1, most: PLAN_LIMITS.textSources }),
  stages: stagesRead,
  params,
  texts: list(
    object({
      place: kinds({
        arg: object({ index: count('index') }),
        env: object({ name: text('variable') }),
        message: nothing,
        prompt: nothing,
        until: nothing,
        param: object({ name: text('text') }),
      }),
      parts: list(either(text('text'), count('index')), { least: 1 }),
    }),
    { least: 1 },
  ),
});

const ref = nullable(text('branch'));
const workspace = object({
  from: kinds({
    folder: object({ source, ref, includeDirty: flag }),
    url: object({ url: text('workspace-url'), ref }),
    stage: stageRef,
  }),
  guestPath,
  changes: optional(exactly('none')),
  subfolder: optional(text('subfolder')),
});

const stage = object({
  id: name,
  scope: optional(nullable(text('scope-id'))),
  each: optional(each),
  of: optional(name),
  loop: optional(object({ until: wholeCondition, maxVisits: count('visits'), onLimit: word(ON_LIMITS) })),
  visits: optional(count('stage-visits')),
  again: optional(names),
  after: optional(list(either(name, edge), { most: PLAN_LIMITS.stages })),
  work,
  texts: optional(texts),
  mock: optional(mock),
  // Admission checks whether it is a schema, in a place where it can stop that check.
  outputSchema: optional(json<JsonValue>('output-schema')),
  input: optional(kinds({ none: nothing, 'run-input': nothing, carry: stageRef, merge: stageRefs })),
  when: optional(nullable(condition)),
  inputs: optional(list(object({ fromStage: name, output: name, guestPath, optional: optional(flag) }))),
  outputs: optional(list(object({ name, guestPath }))),
  workspace: optional(workspace),
  outputFile: optional(nullable(guestPath)),
  timeoutMs: optional(count('stage-timeout-ms')),
  retry: optional(
    object({
      maxAttempts: count('attempts'),
      backoffMs: count('pause-ms'),
      factor: optional(number('pause-factor')),
      maxBackoffMs: optional(count('pause-ms')),
      nonRetryable: optional(list(text('failure-code'), { most: PLAN_LIMITS.nonRetryable })),
    }),
  ),
  continueOnError: optional(always),
  anyFailure: optional(always),
  finally: optional(always),
  maxOutputBytes: optional(count('output-bytes')),
});

const ports = either(exactly('any'), list(count('port'), { least: 1, most: EGRESS_LIMITS.ports }));
const rule = kinds({
  host: object({ name: text('host'), ports }),
  subdomains: object({ name: text('host'), ports }),
  network: object({ cidr: text('network'), ports }),
});
const rules = list(rule, { most: EGRESS_LIMITS.rules });
const egress = object({
  allow: either(exactly('any'), rules),
  deny: rules,
  services: list(object({ name: text('service-name'), host: text('service-host'), port: count('port') }), {
    most: EGRESS_LIMITS.services,
    rule: 'service-names',
  }),
});

const mount = object(
  {
    hostPath: optional(text('absolute-path')),
    source: optional(source),
    guestPath,
    mode: word(MOUNT_MODES),
    git: optional(exactly('writable')),
  },
  'mount',
);

const sandbox = object({
  mode: optional(word(SANDBOX_MODES)),
  isolation: optional(word(ISOLATION_LEVELS)),
  memoryMib: optional(count('memory-mib')),
  vcpus: optional(count('vcpus')),
  diskMib: optional(count('disk-mib')),
  mounts: optional(list(mount, { most: PLAN_LIMITS.mountsPerScope })),
  image: optional(kinds({ dev: nothing, disk: object({ sha256: text('sha256') }) })),
  egress: optional(egress),
  keepOnFailureMs: optional(count('keep-ms')),
  start: optional(exactly('cold')),
  prepared: optional(reference),
  needs: optional(
    object({
      network: optional(always),
      image: optional(reference),
      guestImage: optional(reference),
      kernel: optional(text('absolute-path')),
      initramfs: optional(text('absolute-path')),
      snapshot: optional(reference),
    }),
  ),
});

const scope = object({
  id: text('scope-id'),
  stages: optional(names),
  keepsVm: optional(always),
  checkpoint: optional(exactly('each-step')),
  sandbox: optional(sandbox),
});

const plan = object({
  version: exactly(PLAN_VERSION),
  kind: word(PLAN_KINDS),
  name,
  stages: list(stage, { least: 1, most: PLAN_LIMITS.stages }),
  scopes: list(scope, { most: PLAN_LIMITS.stages }),
  output: kinds({ stage: stageRef, merge: stageRefs }),
  maxParallel: count('max-parallel'),
  timeoutMs: optional(count('run-timeout-ms')),
  deadlineMs: optional(count('run-timeout-ms')),
  graceMs: optional(count('grace-ms')),
  budget: optional(budget),
  hostVariables: list(text('variable')),
});

/** The plan and its parts, by the names that schemas for other programs use. */
export const PLAN_PARTS = {
  Plan: plan,
  Stage: stage,
  Work: work,
  Edge: edge,
  Condition: condition,
  Each: each,
  Texts: texts,
  Mock: mock,
  Workspace: workspace,
  Scope: scope,
  Sandbox: sandbox,
  Mount: mount,
  MountSource: source,
  Egress: egress,
  EgressRule: rule,
  ApprovalField: field,
  AgentSkill: skill,
  Llm: llm,
  Budget: budget,
  Env: env,
} as const satisfies Readonly<Record<string, Node>>;

/** The type of each part. */
interface PartTypes {
  readonly Plan: PlanWire;
  readonly Stage: StageWire;
  readonly Work: WorkWire;
  readonly Edge: EdgePlan;
  readonly Condition: ConditionWire;
  readonly Each: EachPlan;
  readonly Texts: TextsPlan;
  readonly Mock: MockWire;
  readonly Workspace: WorkspacePlan;
  readonly Scope: ScopeWire;
  readonly Sandbox: SandboxWire;
  readonly Mount: MountWire;
  readonly MountSource: MountSource;
  readonly Egress: EgressPlan;
  readonly EgressRule: EgressRule;
  readonly ApprovalField: FieldWire;
  readonly AgentSkill: AgentSkill;
  readonly Llm: LlmPlan;
  readonly Budget: BudgetPlan;
  readonly Env: EnvPlan;
}

type Described = { readonly [P in keyof typeof PLAN_PARTS]: TypeOf<(typeof PLAN_PARTS)[P]> };

/** Each line names a part, or a field of a large part, whose description and type must not differ. */
export type Compared = [
  NoKeys<DifferentKeys<Described['Stage'], StageWire, JsonValue>>,
  NoKeys<DifferentKeys<Described['Scope'], ScopeWire, JsonValue>>,
  NoKeys<DifferentKeys<Described['Sandbox'], SandboxWire, JsonValue>>,
  NoKeys<DifferentKeys<Described['Plan'], PlanWire, JsonValue>>,
  NoKeys<DifferentKeys<Described, PartTypes, JsonValue>>,
];
