/** An attempt's result out of a history, where anybody who reaches the server can have written it. */
import { toErrorCode } from '../errors/error-code.ts';
import { type StageFailure, type StageResult, type StoredStageResult, toStageResult } from './stage-result.ts';

type Fields = Readonly<Record<string, unknown>>;

const OUTCOMES: ReadonlySet<unknown> = new Set<StageResult['outcome']>(['succeeded', 'failed', 'cancelled', 'passed']);

/** @returns null when it is no result of the attempt `execKey` of `stage`: what the run machine reads of one has to be there */
export function readStageResult(value: unknown, stage: string, execKey: string): StageResult | null {
  if (!isRecord(value)) return null;
  const { failure: given, output, outputs, outcome } = value;
  if (value['stage'] !== stage || value['execKey'] !== execKey || !OUTCOMES.has(outcome)) return null;
  if (!isRecord(outputs) || !Object.values(outputs).every(isRecord) || !(output === null || isRecord(output)))
    return null;
  const failure = given === null ? null : failureIn(given);
  if (failure === null && given !== null) return null;
  return toStageResult({ ...(value as unknown as StoredStageResult), failure });
}

function failureIn(value: unknown): StageFailure | null {
  if (!isRecord(value)) return null;
  const { code, message, stderrTail } = value;
  if (typeof code !== 'string' || typeof message !== 'string' || typeof stderrTail !== 'string') return null;
  return { code: toErrorCode(code), message, stderrTail };
}

function isRecord(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
