/** Reads an attempt's result from a history. Any client that reaches the server can have written it. */
import { toErrorCode } from '../errors/error-code.ts';
import { stageResultShape } from './event-shape.ts';
import type { StageResult } from './stage-result.ts';

/** @returns null for a value that is not the result of the attempt `execKey` of `stage` */
export function readStageResult(value: unknown, stage: string, execKey: string): StageResult | null {
  if (stageResultShape(value, '') !== null) return null;
  const result = value as StageResult;
  if (result.stage !== stage || result.execKey !== execKey) return null;
  const { failure } = result;
  return { ...result, failure: failure === null ? null : { ...failure, code: toErrorCode(failure.code) } };
}
