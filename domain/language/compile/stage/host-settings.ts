/**
 * Reads variables of the user's environment that override the spec: its `llm`, and Void-Box's `OLLAMA_BASE_URL`. The
 * command reads them once; the plan contains the result, so that no other program needs them.
 */
import { LLM_PROVIDERS, type LlmProvider, PLAN_LIMITS } from '../../../plan/plan.ts';
import { LLM } from '../../grammar/agent-table.ts';
import { isVariable, VARIABLE_REMEDY } from '../../grammar/values.ts';
import { suggestNearest, findNearest } from '../../text/suggest.ts';
import { quote } from '../../../units/quote.ts';
import { createMapping } from '../../../units/mapping.ts';

/** JSON-safe. Null: the variable is not set. */
export interface HostSettings {
  readonly provider: LlmProvider | null;
  readonly model: string | null;
  readonly baseUrl: string | null;
  readonly apiKeyEnv: string | null;
  /** The raw value. It has an effect only if a spec has that variable, and is checked then. */
  readonly ollamaBaseUrl: string | null;
}

export const SETTING_VARIABLES = {
  provider: 'VOIDBOX_LLM_PROVIDER',
  model: 'VOIDBOX_LLM_MODEL',
  baseUrl: 'VOIDBOX_LLM_BASE_URL',
  apiKeyEnv: 'VOIDBOX_LLM_API_KEY_ENV',
  ollamaBaseUrl: 'OLLAMA_BASE_URL',
} as const satisfies Readonly<Record<keyof HostSettings, string>>;

/** A URL that a program in a guest may get: without credentials and placeholders. */
const ADDRESS = /^https?:\/\/(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?(?:[/?#][^\s{}"'`\\]*)?$/;

interface SettingProblem {
  readonly message: string;
  readonly remedy: string;
}

/**
 * @param variables  of the environment; an empty one counts as not set
 * @returns the settings, null if no variable is set; or the problem of a value that is not valid
 */
export function readHostSettings(
  variables: Readonly<Record<string, string | undefined>>,
): { readonly settings: HostSettings | null } | { readonly problem: SettingProblem } {
  const texts = createMapping(
    Object.entries(SETTING_VARIABLES).map(([key, name]) => [key, variables[name] || null]),
  ) as Record<keyof HostSettings, string | null>;
  if (Object.values(texts).every((text) => text === null)) return { settings: null };
  const provider = texts.provider === null ? null : providerOf(texts.provider);
  const problem =
    (texts.provider !== null && provider === null ? createProviderProblem(texts.provider) : null) ??
    problemOfModel(texts.model) ??
    problemOfBaseUrl(texts.baseUrl) ??
    problemOfKeyName(texts.apiKeyEnv);
  return problem === null ? { settings: { ...texts, provider } } : { problem };
}

/** Compares without case, as in a spec. */
function providerOf(text: string): LlmProvider | null {
  const { aliases } = LLM.keys.provider.type;
  const word = text.toLowerCase();
  const known = Object.hasOwn(aliases, word) ? aliases[word as keyof typeof aliases] : word;
  return LLM_PROVIDERS.find((each) => each === known) ?? null;
}

function createProviderProblem(text: string): SettingProblem {
  return {
    message: `${SETTING_VARIABLES.provider} is ${quote(text)}, which is not a provider${suggestNearest(findNearest(text, LLM_PROVIDERS))}`,
    remedy: `Set it to one of ${LLM_PROVIDERS.join(', ')}, or unset it.`,
  };
}

function problemOfModel(text: string | null): SettingProblem | null {
  if (text === null || (!/\p{Cc}/u.test(text) && text.length <= PLAN_LIMITS.referenceCharacters)) return null;
  return {
    message: `${SETTING_VARIABLES.model} is ${quote(text.slice(0, 80))}, which is not the name of a model`,
    remedy: `Set it to one line of text with at most ${PLAN_LIMITS.referenceCharacters} characters, or unset it.`,
  };
}

function problemOfBaseUrl(text: string | null): SettingProblem | null {
  if (text === null || isAddress(text)) return null;
  // Do not print text that may contain a password.
  const shown = text.includes('@') ? 'a URL with a user or password' : quote(text.slice(0, 80));
  return {
    message: `${SETTING_VARIABLES.baseUrl} is ${shown}, which is not the URL of a model server`,
    remedy:
      'Set it to a URL without a user and a password, such as http://127.0.0.1:8080 (for a key, use VOIDBOX_LLM_API_KEY_ENV), or unset it.',
  };
}

function problemOfKeyName(text: string | null): SettingProblem | null {
  if (text === null || isVariable(text)) return null;
  // The value may be the key itself, which must not get into a log.
  return {
    message: `${SETTING_VARIABLES.apiKeyEnv} has a value of ${text.length} characters, which is not the name of a variable`,
    remedy: `Set it to the name of the variable that holds the key, never to the key itself: ${VARIABLE_REMEDY}. Or unset it.`,
  };
}

export function isAddress(text: string): boolean {
  const match = text.length <= PLAN_LIMITS.referenceCharacters ? ADDRESS.exec(text) : null;
  return match !== null && Number(match[1] ?? 80) >= 1 && Number(match[1] ?? 80) <= 65_535;
}
