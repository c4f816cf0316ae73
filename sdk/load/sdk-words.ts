/**
 * Converts diagnostics to the keys of a definition. One compiler checks specs and definitions, and its diagnostics are
 * about specs. The author of a definition has written other keys, some in other units, and has no lines of a spec.
 */
import type { Diagnostic } from '../../domain/errors/diagnostic.ts';
import { DURATIONS } from '../../domain/language/grammar/values.ts';

type Words = Pick<Diagnostic, 'message' | 'remedy'>;

/** Keys of a spec that have another name in TypeScript, except keys that no definition can get wrong. */
export const SDK_NAMES: Readonly<Record<string, string>> = {
  allow_failures: 'allowFailures',
  api_key_env: 'apiKeyEnv',
  backoff_secs: 'backoffMs',
  base_url: 'baseUrl',
  cached_input: 'cachedInput',
  continue_on_error: 'continueOnError',
  credential_proxy: 'credentialProxy',
  delay: 'delayMs',
  depends_on: 'dependsOn',
  disk_mb: 'diskMib',
  fail_fast: 'failFast',
  for_each: 'forEach',
  grace_secs: 'graceMs',
  guest_image: 'guestImage',
  include_dirty: 'includeDirty',
  initial_secs: 'initialMs',
  keep_secs: 'keepMs',
  max_cost_usd: 'maxCostUsd',
  max_delay: 'maxDelayMs',
  max_deliver: 'maxDeliver',
  max_tokens: 'maxTokens',
  max_turns: 'maxTurns',
  max_attempts: 'maxAttempts',
  max_visits: 'maxVisits',
  on_limit: 'onLimit',
  max_output_mb: 'maxOutputMib',
  max_parallel: 'maxParallel',
  max_secs: 'maxMs',
  memory_mb: 'memoryMib',
  non_retryable: 'nonRetryable',
  on_failure: 'onFailure',
  on_timeout: 'onTimeout',
  self_approval: 'selfApproval',
  output_box: 'output',
  output_file: 'outputFile',
  output_schema: 'outputSchema',
  exit_code: 'exitCode',
  output_step: 'output',
  pipeline: 'definePipeline',
  stdin_from: 'stdinFrom',
  timeout: 'timeoutMs',
  tls_ca: 'tlsCa',
  timeout_secs: 'timeoutMs',
  wait_secs: 'waitMs',
  late_after: 'lateAfterMs',
  waiting_after: 'waitingAfterMs',
  workflow: 'defineWorkflow',
};

/**
 * A definition passes the step or box itself. So if it is not found, it is missing from the list, whatever its name.
 */
const NOT_LISTED = /^(`\w+`.* names the (step|box) ".*"), which does not exist(?:; did you mean ".*"\?)?$/s;
/** The command in a remedy. */
const SHELL_COMMAND = /`run: (?!\{)(.*)`/s;
const IN_SECONDS = /`(?:timeout|grace|backoff|initial|max|keep|wait)_secs`/;
/** Durations: with units in a spec, in milliseconds in a definition. */
const DURATION_KEYS = [
  { key: '`timeout` of `approval`', name: '`timeoutMs`', range: DURATIONS.approval },
  { key: '`for` of `wait`', name: '`forMs`', range: DURATIONS.wait },
  { key: '`for` of `dedupe`', name: '`forMs` of `dedupe`', range: DURATIONS.dedupe },
  { key: '`delay` of `debounce`', name: '`delayMs` of `debounce`', range: DURATIONS.debounce },
  { key: '`max_delay` of `debounce`', name: '`maxDelayMs` of `debounce`', range: DURATIONS.debounce },
  { key: '`timeout` of `batch`', name: '`timeoutMs` of `batch`', range: DURATIONS.batch },
  { key: '`per` of `rate`', name: '`perMs` of `rate`', range: DURATIONS.rate },
  { key: '`every` of `schedule`', name: '`everyMs` of `schedule`', range: DURATIONS.interval },
  { key: '`jitter` of `schedule`', name: '`jitterMs` of `schedule`', range: DURATIONS.jitter },
  { key: '`window` of `schedule`', name: '`windowMs` of `schedule`', range: DURATIONS.catchupWindow },
] as const;
const MS_PER_SECOND = 1_000;

/** @param placeOfLine  the text for a line of the spec, which the author has not seen */
export function toSdkWords({ message, remedy }: Words, placeOfLine: (line: number) => string): Words {
  const [, unlisted, kind] = NOT_LISTED.exec(message) ?? [];
  if (unlisted !== undefined) {
    const list = kind === 'step' ? '`steps` of `defineWorkflow`' : '`stages` of `definePipeline`';
    return { message: `${renameKeys(unlisted)}, which is not in ${list}`, remedy: 'add it there, or use another one' };
  }
  const duration = DURATION_KEYS.find(({ key }) => message.startsWith(key));
  if (duration !== undefined) {
    const { key, name, range } = duration;
    return {
      message: message.replace(key, name),
      remedy: `write milliseconds, from ${range.minMs} to ${range.maxMs}`,
    };
  }
  const inMs = IN_SECONDS.test(message);
  const translateWords = (text: string): string =>
    renameKeys(inMs ? toMilliseconds(text) : text)
      .replace(SHELL_COMMAND, (_, script: string) => `\`${toDoubleQuotes(script)}\``)
      .replace(/\bon line (\d+)$/, (_, line: string) => `at ${placeOfLine(Number(line))}`);
  return { message: translateWords(message), remedy: translateWords(remedy) };
}

/** Renames only text that is marked as code, because other text may be a value. */
function renameKeys(text: string): string {
  return text.replace(/`([a-z_]+)`/g, (code, key: string) =>
    Object.hasOwn(SDK_NAMES, key) ? `\`${SDK_NAMES[key]!}\`` : code,
  );
}

function toMilliseconds(text: string): string {
  return text
    .replace(
      /from (\S+) to (\S+) \(seconds\)/,
      (_, least: string, most: string) => `from ${times1000(least)} to ${times1000(most)} (milliseconds)`,
    )
    .replace(/ is (-?[\d.]+(?:e[+-]?\d+)?)$/, (_, value: string) => ` is ${times1000(value)}`);
}

/** Multiplies without the digits that binary fractions add. */
function times1000(text: string): number {
  return Number((Number(text) * MS_PER_SECOND).toPrecision(15));
}

/** Converts single quotes of YAML, which differ from those of TypeScript. */
function toDoubleQuotes(yaml: string): string {
  return yaml.startsWith("'") ? JSON.stringify(yaml.slice(1, -1).replaceAll("''", "'")) : yaml;
}
