/** Which hosts the command line of each provider needs: the meaning of `provider` in `egress`. */
import { DEFAULT_PORTS, type EgressRule, type EgressService } from '../plan/egress.ts';
import type { LlmPlan, LlmProvider } from '../plan/plan.ts';

/** Names by which a guest may call its host, with and without a proxy between them. */
const HOST_NAMES: readonly string[] = ['10.0.2.2', 'localhost', '127.0.0.1', '[::1]'];

/** The name in the guest of a model server on the worker's host. */
const SERVICE_NAME = 'llm';

/** Default ports of the servers of these providers. A `custom` server uses Ollama's port unless the spec sets a URL. */
const LOCAL_PORTS: Partial<Record<LlmProvider, number>> = { ollama: 11434, 'lm-studio': 1234, custom: 11434 };

const HOSTS: Readonly<Record<LlmProvider, readonly string[]>> = {
  claude: ['api.anthropic.com'],
  // The first host checks the token, which belongs to an account of the second host.
  'claude-personal': ['api.anthropic.com', 'claude.ai'],
  codex: ['api.openai.com', 'chatgpt.com', 'auth.openai.com'],
  // A guest does not renew its login, so it needs no access to the host that renews logins.
  'codex-personal': ['chatgpt.com'],
  ollama: [],
  'lm-studio': [],
  custom: [],
};

/** The egress rules with which an agent reaches its model. Null: the worker chooses, and it chooses Claude. */
export function listProviderRules(llm: LlmPlan | null): readonly EgressRule[] {
  const at = endpointOf(llm);
  if (at === 'own')
    return HOSTS[llm?.provider ?? 'claude'].map((name) => ({ kind: 'host', name, ports: DEFAULT_PORTS }));
  return at === null || at.isLocal ? [] : [{ kind: 'host', name: at.host, ports: [at.port] }];
}

/** The model server on the worker's own host, if the agent uses one. */
export function listProviderServices(llm: LlmPlan | null): readonly EgressService[] {
  const at = endpointOf(llm);
  if (at === 'own' || at === null || !at.isLocal) return [];
  return [{ name: SERVICE_NAME, host: '127.0.0.1', port: at.port }];
}

/** The base URL as a program in the guest reaches it. A host name of the loopback becomes the name of the service. */
export function guestBaseUrl(baseUrl: string): string {
  const url = parseUrl(baseUrl);
  if (url === null || !HOST_NAMES.includes(url.host)) return baseUrl;
  return `${url.scheme}://${SERVICE_NAME}:${url.port}${url.rest}`;
}

/** The default URL of a provider's server in the guest; null: the server is on the internet. */
export function localBaseUrl(provider: LlmProvider): string | null {
  const port = LOCAL_PORTS[provider];
  return port === undefined ? null : `http://${SERVICE_NAME}:${port}`;
}

/** The target with which the network door of a VM names the model's server. */
export type ModelTarget =
  | { readonly service: string; readonly port: number }
  | { readonly host: string; readonly port: number };

/** Null: the provider's own hosts, or a URL that cannot be parsed. */
export function modelTarget(llm: LlmPlan | null): ModelTarget | null {
  const at = endpointOf(llm);
  if (at === 'own' || at === null) return null;
  return at.isLocal ? { service: SERVICE_NAME, port: at.port } : { host: at.host, port: at.port };
}

/** The URL of the model's server from the spec, or else the default of its provider; null: the provider's own hosts. */
export function selectServer(llm: LlmPlan | null): string | null {
  if (llm === null) return null;
  if (llm.baseUrl !== null && llm.baseUrl !== '') return llm.baseUrl;
  const port = LOCAL_PORTS[llm.provider];
  return port === undefined ? null : `http://127.0.0.1:${port}`;
}

/** Replaces the guest's name of the model server with the URL from the spec, in text from the guest. */
export function withWrittenServer(llm: LlmPlan | null, words: string): string {
  const at = endpointOf(llm);
  const written = parseUrl(selectServer(llm) ?? '');
  if (at === 'own' || at === null || !at.isLocal || written === null) return words;
  const shown = `${written.host}:${written.port}`;
  return words.replaceAll(new RegExp(`(?<![\\w.-])${SERVICE_NAME}:${at.port}(?!\\d)`, 'g'), () => shown);
}

interface Endpoint {
  readonly host: string;
  readonly port: number;
  readonly isLocal: boolean;
}

/** `own`: the provider's hosts. Null: the URL cannot be parsed. */
function endpointOf(llm: LlmPlan | null): Endpoint | 'own' | null {
  const localPort = llm === null ? undefined : LOCAL_PORTS[llm.provider];
  const baseUrl = llm?.baseUrl ?? null;
  if (baseUrl === null || baseUrl === '')
    return localPort === undefined ? 'own' : { host: '127.0.0.1', port: localPort, isLocal: true };
  const url = parseUrl(baseUrl);
  return url === null ? null : { host: url.host, port: url.port, isLocal: HOST_NAMES.includes(url.host) };
}

interface UrlParts {
  readonly scheme: string;
  readonly host: string;
  readonly port: number;
  readonly rest: string;
}

/** Parses without `URL`, because the workflow sandbox does not have it. */
function parseUrl(text: string): UrlParts | null {
  const match = /^(https?):\/\/(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?((?:[/?#].*)?)$/.exec(text);
  if (match === null) return null;
  const [, scheme = '', host = '', digits, rest = ''] = match;
  const port = digits === undefined ? (scheme === 'https' ? 443 : 80) : Number(digits);
  return port >= 1 && port <= 65_535 ? { scheme, host: host.toLowerCase(), port, rest } : null;
}
