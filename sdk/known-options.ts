/**
 * The options of each builder by name. `checkOptions` gets one with a type, so that the compiler finds each missing
 * option here.
 */
const BESIDE_WORK = {
  when: true,
  env: true,
  secrets: true,
  inputs: true,
  outputs: true,
  outputFile: true,
  timeoutMs: true,
  retry: true,
  continueOnError: true,
  maxOutputMib: true,
  sandbox: true,
  outputSchema: true,
  workspace: true,
  mock: true,
  forEach: true,
  maxParallel: true,
  failFast: true,
  allowFailures: true,
} as const;

export const BOX_OPTIONS = {
  ...BESIDE_WORK,
  cwd: true,
  finally: true,
  stdinFrom: true,
  onFailure: true,
} as const;

export const STEP_OPTIONS = { ...BOX_OPTIONS, dependsOn: true, service: true } as const;

const { forEach: _list, maxParallel: _most, failFast: _fast, allowFailures: _allowed, ...BESIDE_AGENT } = BESIDE_WORK;

export const AGENT_BOX_OPTIONS = { ...BESIDE_AGENT, skills: true, llm: true, budget: true, onFailure: true } as const;

export const AGENT_STEP_OPTIONS = { ...AGENT_BOX_OPTIONS, dependsOn: true, service: true } as const;

const { outputFile: _file, maxOutputMib: _output, workspace: _folder, ...BESIDE_SKILL } = BESIDE_AGENT;

export const SKILL_BOX_OPTIONS = { ...BESIDE_SKILL, use: true, params: true, agent: true, onFailure: true } as const;

export const SKILL_STEP_OPTIONS = { ...SKILL_BOX_OPTIONS, dependsOn: true } as const;

export const SKILL_AGENT_KEYS = { llm: true, skills: true, budget: true } as const;

export const APPROVAL_OPTIONS = {
  message: true,
  by: true,
  selfApproval: true,
  timeoutMs: true,
  onTimeout: true,
  fields: true,
  when: true,
  dependsOn: true,
  onFailure: true,
  continueOnError: true,
} as const;

export const WAIT_OPTIONS = {
  forMs: true,
  until: true,
  when: true,
  dependsOn: true,
  onFailure: true,
  continueOnError: true,
} as const;

export const PART_OPTIONS = {
  with: true,
  when: true,
  dependsOn: true,
  onFailure: true,
  continueOnError: true,
  outputSchema: true,
  mock: true,
  forEach: true,
  maxParallel: true,
  failFast: true,
  allowFailures: true,
} as const;

export const LOOP_OPTIONS = { until: true, maxVisits: true, onLimit: true } as const;

export const FAN_OUT_OPTIONS = { name: true } as const;

export const INPUT_KEYS = { from: true, guest: true, optional: true } as const;

export const WORKSPACE_KEYS = {
  git: true,
  ref: true,
  includeDirty: true,
  from: true,
  guest: true,
  changes: true,
  subfolder: true,
} as const;

export const MOCK_KEYS = { output: true, exitCode: true } as const;

export const RETRY_KEYS = {
  maxAttempts: true,
  backoffMs: true,
  initialMs: true,
  maxMs: true,
  backoff: true,
  nonRetryable: true,
} as const;

export const DEFAULTS_KEYS = { env: true, timeoutMs: true, retry: true, maxOutputMib: true } as const;

export const LLM_KEYS = {
  provider: true,
  model: true,
  baseUrl: true,
  apiKeyEnv: true,
  credentialProxy: true,
  price: true,
} as const;

export const PRICE_KEYS = { input: true, cachedInput: true, output: true } as const;

export const BUDGET_KEYS = { maxCostUsd: true, maxTokens: true, maxTurns: true } as const;

export const FOR_EACH_OPTIONS = { maxParallel: true, failFast: true, allowFailures: true } as const;

const DEFINITION = {
  name: true,
  params: true,
  sandbox: true,
  llm: true,
  secrets: true,
  maxParallel: true,
  defaults: true,
  timeoutMs: true,
  graceMs: true,
  budget: true,
  output: true,
  on: true,
  notify: true,
  lateAfterMs: true,
  waitingAfterMs: true,
} as const;

export const WORKFLOW_OPTIONS = { ...DEFINITION, steps: true, checkpoint: true } as const;

export const PIPELINE_OPTIONS = { ...DEFINITION, stages: true, aside: true } as const;

export const COMPILE_OPTIONS = { baseDir: true, params: true } as const;

export const RUN_OPTIONS = {
  params: true,
  baseDir: true,
  input: true,
  runId: true,
  mock: true,
  allowMounts: true,
  allowGit: true,
  mockAgents: true,
  timeoutMs: true,
  deadlineMs: true,
  signal: true,
  onProgress: true,
  onEvent: true,
} as const;

export const RECEIVER_OPTIONS = {
  name: true,
  states: true,
  as: true,
  webhook: true,
  slack: true,
  cloudevents: true,
} as const;
export const NOTIFY_WEBHOOK_OPTIONS = { url: true, secret: true } as const;
export const NOTIFY_SLACK_OPTIONS = { secret: true } as const;
export const NOTIFY_CLOUDEVENTS_OPTIONS = { url: true, token: true, mode: true } as const;

export const TRIGGER_OPTIONS = {
  name: true,
  webhook: true,
  schedule: true,
  folder: true,
  outbox: true,
  run: true,
  queue: true,
  when: true,
  params: true,
  input: true,
  dedupe: true,
  debounce: true,
  batch: true,
  rate: true,
  order: true,
} as const;

export const WEBHOOK_OPTIONS = { verify: true, secret: true, format: true, respond: true } as const;
export const HMAC_OPTIONS = { header: true, prefix: true, algorithm: true, encoding: true, timestamp: true } as const;
export const RESPOND_OPTIONS = { waitMs: true, output: true, status: true } as const;

export const RUN_SOURCE_OPTIONS = { of: true, state: true, when: true, output: true } as const;

export const CALENDAR_OPTIONS = { minute: true, hour: true, day: true, month: true, weekday: true } as const;

export const SCHEDULE_OPTIONS = {
  cron: true,
  calendars: true,
  everyMs: true,
  timezone: true,
  jitterMs: true,
  catchup: true,
  windowMs: true,
  overlap: true,
} as const;

export const FOLDER_OPTIONS = { path: true, match: true, existing: true, everyMs: true } as const;
export const OUTBOX_OPTIONS = { secret: true, table: true, ca: true, everyMs: true } as const;
export const QUEUE_OPTIONS = { nats: true } as const;
export const NATS_OPTIONS = {
  servers: true,
  stream: true,
  consumer: true,
  subject: true,
  start: true,
  maxDeliver: true,
  token: true,
  user: true,
  password: true,
  creds: true,
  tlsCa: true,
} as const;

export const DEDUPE_OPTIONS = { key: true, forMs: true } as const;
export const DEBOUNCE_OPTIONS = { key: true, delayMs: true, maxDelayMs: true, take: true } as const;
export const BATCH_OPTIONS = { key: true, size: true, timeoutMs: true } as const;
export const RATE_OPTIONS = { key: true, limit: true, perMs: true, onLimit: true } as const;
export const ORDER_OPTIONS = { key: true } as const;
