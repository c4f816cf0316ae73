/** Applies the settings of a user's environment to a spec, as if its author had written them. */
import { ownLlmOf } from './stage/skill.ts';
import { hasAgent } from '../read/stage-facts.ts';
import { type HostSettings, isAddress, SETTING_VARIABLES } from './stage/host-settings.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { EnvSpec, Spec } from '../read/spec.ts';
import type { Located } from '../text/tree.ts';

type LlmSpec = NonNullable<Spec['llm']>;

const OLLAMA = SETTING_VARIABLES.ollamaBaseUrl;

/** The effect of the settings on a spec and the parts that it uses. */
export interface AppliedSettings {
  /** Whether an agent uses the settings. */
  llm: boolean;
  /** Whether a stage with an agent has an `llm` of its own, which stays. */
  hasOwnLlm: boolean;
  /** Keys of an `llm` that are dropped because they belong to a provider or model that the settings replace. */
  readonly leftOut: Set<string>;
  /** Whether a variable of a spec has the host's value. */
  ollama: boolean;
}

export function createUnapplied(): AppliedSettings {
  return { llm: false, hasOwnLlm: false, leftOut: new Set(), ollama: false };
}

/** Returns the spec as if its author had written the settings. @param applied  gets their effect */
export function withHostSettings(
  spec: Spec,
  settings: HostSettings,
  applied: AppliedSettings,
  problems: Problems,
): Spec {
  return withOllama(withLlm(spec, settings, applied), settings.ollamaBaseUrl, applied, problems);
}

function withLlm(spec: Spec, settings: HostSettings, applied: AppliedSettings): Spec {
  const { provider, model, baseUrl, apiKeyEnv } = settings;
  if ([provider, model, baseUrl, apiKeyEnv].every((value) => value === null)) return spec;
  const agents = spec.stages.filter((stage) => hasAgent(stage) || stage.isShell);
  const bySpec = agents.filter((stage) => ownLlmOf(stage) === null);
  applied.hasOwnLlm ||= bySpec.length < agents.length;
  if (bySpec.length === 0) return spec;
  applied.llm = true;
  return { ...spec, llm: llmBy(spec.llm, spec.name, settings, applied.leftOut) };
}

/** Drops the base URL, key or model of the written provider if the settings name another one. */
function llmBy(
  written: LlmSpec | null,
  { at }: Located<string>,
  settings: HostSettings,
  leftOut: Set<string>,
): LlmSpec {
  const withPlace = <T>(value: T): Located<T> => ({ value, at: written?.at ?? at });
  const provider =
    settings.provider === null ? (written?.provider ?? withPlace('claude')) : withPlace(settings.provider);
  const isSameProvider = written === null || provider.value === written.provider.value;
  const keepUnless = <T>(key: string, before: T | null, isStill: boolean): T | null => {
    if (before !== null && !isStill) leftOut.add(key);
    return isStill ? before : null;
  };
  const chooseValue = (key: string, set: string | null, before: Located<string> | null): Located<string> | null =>
    set === null ? keepUnless(key, before, isSameProvider) : withPlace(set);
  const model = chooseValue('model', settings.model, written?.model ?? null);
  const isSameModel = isSameProvider && model?.value === written?.model?.value;
  return {
    at: written?.at ?? at,
    provider,
    model,
    baseUrl: chooseValue('base_url', settings.baseUrl, written?.baseUrl ?? null),
    apiKeyEnv: chooseValue('api_key_env', settings.apiKeyEnv, written?.apiKeyEnv ?? null),
    credentialProxy: written?.credentialProxy ?? null,
    price: keepUnless('price', written?.price ?? null, isSameModel),
  };
}

function withOllama(spec: Spec, address: string | null, applied: AppliedSettings, problems: Problems): Spec {
  if (address === null) return spec;
  const withoutLeftVariables = (env: readonly EnvSpec[]): readonly EnvSpec[] =>
    env.map((said) => {
      // An empty value uses the host's variable anyway.
      if (said.name !== OLLAMA || said.value.value === '') return said;
      if (!isAddress(address)) {
        problems.error(
          'spec/bad-value',
          said.at,
          `the variable ${OLLAMA} of this host overrides this URL, but its value is not a URL`,
          `set it to a URL without a user and a password, such as http://127.0.0.1:11434, or unset it: unset ${OLLAMA}`,
        );
        return said;
      }
      applied.ollama = true;
      return { ...said, value: { value: address, at: said.value.at } };
    });
  const inMapping = <T extends { readonly env: readonly EnvSpec[] }>(mapping: T | null): T | null =>
    mapping === null ? null : { ...mapping, env: withoutLeftVariables(mapping.env) };
  return {
    ...spec,
    sandbox: inMapping(spec.sandbox),
    defaults: inMapping(spec.defaults),
    stages: spec.stages.map((stage) => ({
      ...stage,
      env: withoutLeftVariables(stage.env),
      sandbox: inMapping(stage.sandbox),
    })),
  };
}
