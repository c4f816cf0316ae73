/**
 * The shape that an event must have when it is read back, as far as readers rely on it. A type of a later build is
 * accepted.
 */
import { FIELD_TYPES, TIMEOUT_ANSWERS } from '../plan/plan.ts';
import type { DoorNotice } from './door-notice.ts';
import type { RunEventBody } from './event.ts';
import { ORIGIN_KINDS } from './origin.ts';
import {
  aCount,
  aFlag,
  aNumber,
  aText,
  aTime,
  type Check,
  either,
  kindOf,
  listOf,
  objectOf,
  oneOf,
  optional,
  allowNull,
  valuesOf,
} from './shape.ts';

export const dataRefShape: Check = objectOf({
  sha256: aText,
  sizeBytes: aCount,
  mediaType: aText,
  redacted: optional(objectOf({ variables: listOf(aText), breaksJson: aFlag })),
});

const continueShape = objectOf({
  fresh: optional(listOf(aText)),
  timeoutMs: optional(aCount),
  maxCostUsd: optional(aNumber),
  maxTokens: optional(aCount),
  maxTurns: optional(aCount),
});

export const originShape: Check = objectOf({
  runId: aText,
  kind: oneOf(...ORIGIN_KINDS),
  from: allowNull(aText),
  continue: optional(continueShape),
});

export const savedFolderShape: Check = objectOf({
  guestPath: aText,
  ref: dataRefShape,
  changes: optional(
    objectOf({
      removed: optional(dataRefShape),
      leftOut: listOf(aText),
      leftOutCount: aCount,
      fileCount: aCount,
      removedCount: aCount,
    }),
  ),
});

const failure = objectOf({ code: aText, message: aText, stderrTail: aText });
const budget = objectOf({ maxCostUsd: optional(aNumber), maxTokens: optional(aCount), maxTurns: optional(aCount) });
const vm = { vmKey: aText, scope: aText, generation: aCount };

export const stageResultShape: Check = objectOf({
  stage: aText,
  execKey: aText,
  outcome: oneOf('succeeded', 'failed', 'cancelled', 'passed'),
  failure: allowNull(failure),
  durationMs: aNumber,
  output: allowNull(dataRefShape),
  outputs: valuesOf(dataRefShape),
  instance: listOf(objectOf({ part: aText, item: aCount })),
  attempt: aCount,
  vm: allowNull(objectOf({ backend: aText, vmm: aText, isolation: aText, accelerator: aText })),
  bootMs: optional(aNumber),
  usage: valuesOf(aNumber),
  command: allowNull(objectOf({ exitCode: allowNull(aNumber), stdoutBytes: aCount, stderrBytes: aCount })),
  partial: optional(valuesOf(dataRefShape)),
  agent: optional(
    objectOf({
      provider: aText,
      model: allowNull(aText),
      sessionId: allowNull(aText),
      played: aFlag,
      transcript: dataRefShape,
    }),
  ),
});

const aFieldValue = either(aText, either(aNumber, aFlag));

const outcome = objectOf({
  state: oneOf('succeeded', 'failed', 'cancelled', 'terminated'),
  failedStage: allowNull(aText),
  failure: allowNull(failure),
  output: allowNull(dataRefShape),
  tolerated: optional(listOf(aText)),
});

const question = objectOf({
  message: aText,
  by: listOf(aText),
  selfApproval: optional(aFlag),
  fields: listOf(
    objectOf({
      name: aText,
      type: oneOf(...FIELD_TYPES),
      required: aFlag,
      description: aText,
      choices: listOf(aText),
    }),
  ),
  deadlineAtMs: allowNull(aTime),
  onTimeout: oneOf(...TIMEOUT_ANSWERS),
  item: optional(aText),
});

const outputRange = {
  stage: aText,
  execKey: aText,
  stream: oneOf('stdout', 'stderr'),
  from: aCount,
  to: aCount,
  encoding: oneOf('utf8', 'base64'),
};
const inlineOutput = objectOf({ ...outputRange, data: aText });
const placedOutput = objectOf({ ...outputRange, place: objectOf({ file: aText, offset: aCount, bytes: aCount }) });

const door = { ...vm, offset: aCount };
const doorTarget = { host: optional(aText), port: optional(aCount), service: optional(aText) };
const networkShape = kindOf<DoorNotice['kind']>(
  'kind',
  {
    refused: objectOf({ ...door, ...doorTarget, cause: aText, reason: aText }),
    closed: objectOf({
      ...door,
      ...doorTarget,
      end: aText,
      sentBytes: aCount,
      receivedBytes: aCount,
      durationMs: aNumber,
    }),
    dropped: objectOf({ ...door, of: aText }),
    unwritten: objectOf({ ...door, count: aCount }),
    more: objectOf({ ...door, refused: aCount, closed: aCount, sentBytes: aCount, receivedBytes: aCount }),
  },
  { others: true },
);

export const triggerShape = objectOf({
  deployment: aText,
  version: aCount,
  delivery: aText,
  traceparent: optional(aText),
  cloudEvent: optional(objectOf({ source: aText, id: aText })),
});

const body = kindOf<RunEventBody['type']>(
  'type',
  {
    'run-admitted': objectOf({
      name: aText,
      kind: aText,
      hostId: aText,
      stages: listOf(objectOf({ id: aText, dependsOn: listOf(aText) })),
      outputStage: allowNull(aText),
      startedAtMs: optional(aTime),
      origin: optional(originShape),
      trigger: optional(triggerShape),
      mocked: optional(listOf(aText)),
      agents: optional(listOf(aText)),
      mockAgents: optional(listOf(aText)),
      budget: optional(budget),
    }),
    'stage-given': objectOf({
      stage: aText,
      runId: aText,
      outcome: oneOf('succeeded', 'passed'),
      output: allowNull(dataRefShape),
      outputs: valuesOf(dataRefShape),
    }),
    'run-resumed': objectOf({ by: aText }),
    'run-finished': objectOf({ outcome }),
    'vm-starting': objectOf(vm),
    'vm-ready': objectOf({
      ...vm,
      backend: aText,
      vmm: aText,
      chosenBy: optional(oneOf('spec', 'auto')),
      isolation: aText,
      accelerator: aText,
      kernel: aText,
      jail: aText,
      limits: optional(objectOf({ cpus: allowNull(aCount), memoryMib: allowNull(aCount), note: allowNull(aText) })),
      bootMs: aNumber,
      start: optional(oneOf('cold', 'snapshot')),
      snapshot: optional(aText),
      pooled: optional(aFlag),
      startNote: optional(aText),
      resumedAfter: optional(aText),
      resumeNote: optional(aText),
    }),
    'checkpoint-made': objectOf({
      ...vm,
      stage: aText,
      execKey: aText,
      checkpoint: aText,
      usedBytes: aCount,
      tookMs: aNumber,
    }),
    'checkpoint-failed': objectOf({ ...vm, stage: aText, execKey: aText, reason: aText }),
    'vm-lost': objectOf({ ...vm, reason: aText }),
    'vm-stopped': objectOf(vm),
    'scope-restarted': objectOf({
      scope: aText,
      reason: aText,
      stages: listOf(aText),
      attempts: optional(listOf(aCount)),
      kept: optional(listOf(aText)),
    }),
    'loop-visited': objectOf({ stage: aText, visit: aCount, stages: listOf(aText) }),
    'stage-started': objectOf({
      stage: aText,
      execKey: aText,
      attempt: aCount,
      items: optional(aCount),
      vmKey: optional(aText),
      budget: optional(budget),
    }),
    'stage-progress': objectOf({
      stage: aText,
      execKey: aText,
      sessionId: aText,
      folders: listOf(savedFolderShape),
      frozenMs: aNumber,
      turns: optional(aCount),
    }),
    'stage-published': objectOf({ stage: aText, execKey: aText, output: dataRefShape }),
    'stage-resumed': objectOf({
      stage: aText,
      execKey: aText,
      from: aText,
      savedAtMs: aTime,
      runId: optional(aText),
      turns: optional(aCount),
    }),
    'stage-reattached': objectOf({ stage: aText, execKey: aText, fence: aCount, reason: aText }),
    output: (value, at) => (Object.hasOwn(value as object, 'place') ? placedOutput : inlineOutput)(value, at),
    network: networkShape,
    'agent-text': objectOf({ stage: aText, execKey: aText, text: aText }),
    'agent-tool': objectOf({ stage: aText, execKey: aText, tool: aText, detail: aText, failed: aFlag }),
    'agent-tool-output': objectOf({ stage: aText, execKey: aText, tool: aText, text: aText, leftOutBytes: aCount }),
    'agent-asked': objectOf({ stage: aText, execKey: aText, time: aCount, mostTimes: aCount, reason: aText }),
    'skill-step': objectOf({
      stage: aText,
      execKey: aText,
      session: aText,
      command: aCount,
      step: aText,
      turn: aCount,
      refusal: allowNull(aText),
      asked: dataRefShape,
    }),
    'agent-usage': objectOf({
      stage: aText,
      execKey: aText,
      inputTokens: aCount,
      outputTokens: aCount,
      cachedInputTokens: aCount,
      turns: aCount,
      costUsd: allowNull(aNumber),
    }),
    'stage-finished': objectOf({ stage: aText, execKey: aText, result: stageResultShape }),
    'stage-retrying': objectOf({ stage: aText, execKey: aText, reason: aText, delayMs: aNumber }),
    'stage-asking': objectOf({ stage: aText, execKey: aText, attempt: aCount, question }),
    'stage-answered': objectOf({
      stage: aText,
      execKey: aText,
      outcome: oneOf('succeeded', 'failed', 'cancelled'),
      failure: allowNull(failure),
      by: optional(aText),
      verified: optional(aFlag),
      comment: optional(aText),
      fields: optional(valuesOf(aFieldValue)),
      output: optional(dataRefShape),
    }),
    'stage-sleeping': objectOf({ stage: aText, execKey: aText, attempt: aCount, untilMs: aTime }),
    'stage-woken': objectOf({ stage: aText, execKey: aText, outcome: oneOf('succeeded', 'cancelled') }),
    'stage-failed': objectOf({ stage: aText, execKey: aText, failure }),
    'stage-skipped': objectOf({ stage: aText, reason: aText }),
    'stage-passed': objectOf({ stage: aText, output: optional(dataRefShape) }),
    notice: objectOf({ level: oneOf('info', 'warning'), message: aText }),
  },
  { others: true },
);

/** An event as a log contains it: its output may be in a separate file next to the log. */
export const storedEventShape: Check = objectOf({ id: aText, atMs: aTime, body });
