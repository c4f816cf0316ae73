import { MOCK_DEFAULTS } from '../../../plan/defaults.ts';
import { PLAN_LIMITS, type StagePlan } from '../../../plan/plan.ts';
import { countUtf8Bytes } from '../../../units/utf8.ts';
import type { Filler } from '../../grammar/placeholders.ts';
import type { Problems } from '../../text/diagnostics.ts';
import type { StageSpec } from '../../read/spec.ts';

export function compileMock(
  { mock }: StageSpec,
  what: string,
  fill: Filler,
  problems: Problems,
): Pick<StagePlan, 'mock'> {
  if (mock === null) return {};
  const { output, exitCode } = mock;
  // A value that is not a text has no placeholders, because JSON must stay JSON.
  const text = typeof output?.value === 'string' ? fill({ at: output.at, value: output.value }) : output?.text;
  const bytes = countUtf8Bytes(text ?? '');
  if (output !== null && bytes > PLAN_LIMITS.mockBytes)
    problems.error(
      'spec/too-large',
      output.at,
      `the output in \`mock\` of ${what} has ${bytes} bytes; at most ${PLAN_LIMITS.mockBytes} are allowed`,
      'write a shorter one',
    );
  return { mock: { output: text ?? MOCK_DEFAULTS.output, exitCode: exitCode ?? MOCK_DEFAULTS.exitCode } };
}
