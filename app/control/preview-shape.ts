/** Reads the preview of a retry or a fork. A service that does not keep to the API gets an error with its name. */
import type { Plan } from '../../domain/plan/plan.ts';
import { fromWire, type PlanWire } from '../../domain/plan/wire.ts';
import { createForeignError } from '../../http/service-client.ts';
import type { ContinuedJson } from '../json/continued-json.ts';
import type { OriginJson } from '../json/origin-json.ts';

/** @throws ServiceError `cli/no-service` */
export function parsePreview(answer: unknown, name: string): OriginJson & Partial<ContinuedJson> {
  const { origin, given, again, checkpoints, continued, limits } = toFields(answer);
  if (
    !isOrigin(origin) ||
    !isListOf(given, isText) ||
    !isListOf(again, isAgain) ||
    !isListOf(checkpoints, isCheckpoint)
  )
    throw createForeignError(name);
  const shown = { origin, given, again, checkpoints } as unknown as OriginJson;
  if (continued === undefined && limits === undefined) return shown;
  if (!isListOf(continued, isContinued) || !isLimits(limits)) throw createForeignError(name);
  return { ...shown, continued, limits } as unknown as OriginJson & ContinuedJson;
}

/** @throws ServiceError `cli/no-service` */
export function parsePreviewPlan(answer: unknown, name: string): Plan {
  try {
    return fromWire(toFields(answer)['plan'] as PlanWire);
  } catch {
    throw createForeignError(name);
  }
}

type Fields = Readonly<Record<string, unknown>>;

function toFields(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

function isText(value: unknown): boolean {
  return typeof value === 'string';
}

function isNumber(value: unknown): boolean {
  return typeof value === 'number' && Number.isFinite(value);
}

function isAbsentOr(isValue: (value: unknown) => boolean): (value: unknown) => boolean {
  return (value) => value === null || value === undefined || isValue(value);
}

function isListOf(value: unknown, isEntry: (entry: unknown) => boolean): boolean {
  return Array.isArray(value) && value.every((entry) => isEntry(entry));
}

function isOrigin(value: unknown): boolean {
  const { runId, kind, from } = toFields(value);
  return isText(runId) && (kind === 'retry' || kind === 'fork') && isAbsentOr(isText)(from);
}

function isAgain(value: unknown): boolean {
  const { stage, because, of, keys, state, unsaved } = toFields(value);
  return isText(stage) && isText(because) && isListOf(keys, isText) && [of, state, unsaved].every(isAbsentOr(isText));
}

function isCheckpoint(value: unknown): boolean {
  const { scope, after } = toFields(value);
  return isText(scope) && isText(after);
}

function isContinued(value: unknown): boolean {
  const { stage, savedAt, turns, changedFiles, deletedFiles, leftOutCount, sizeBytes, ended } = toFields(value);
  return (
    isText(stage) &&
    isText(savedAt) &&
    !Number.isNaN(Date.parse(savedAt as string)) &&
    [deletedFiles, leftOutCount, sizeBytes].every(isNumber) &&
    [turns, changedFiles].every(isAbsentOr(isNumber)) &&
    isAbsentOr((end) => isText(toFields(end)['code']) && isText(toFields(end)['message']))(ended)
  );
}

function isLimits(value: unknown): boolean {
  const { stages, timeoutMs, budget } = toFields(value);
  return (
    typeof stages === 'object' &&
    stages !== null &&
    Object.values(stages).every((each) => {
      const { timeoutMs: ofStage, budget: budgetOfStage } = toFields(each);
      return isNumber(ofStage) && isBudget(budgetOfStage);
    }) &&
    isAbsentOr(isNumber)(timeoutMs) &&
    isBudget(budget)
  );
}

function isBudget(value: unknown): boolean {
  const { maxCostUsd, maxTokens, maxTurns } = toFields(value);
  return [maxCostUsd, maxTokens, maxTurns].every(isAbsentOr(isNumber));
}
