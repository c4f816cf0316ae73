/** Which hosts the CLI of each provider needs: what `provider` stands for in `egress`. */
import { DEFAULT_PORTS, type EgressRule, type EgressService } from '../plan/egress.ts';
import type { LlmPlan, LlmProvider } from '../plan/plan.ts';

/** As the guest names its host, with and without a proxy between them. */
const HOST_NAMES: readonly string[] = ['10.0.2.2', 'localhost', '127.0.0.1', '[::1]'];

/** What a service of a model server on the worker's host is called in the guest. */
const SERVICE_NAME = 'llm';

/** Where the servers of these providers listen by themselves; any other one is looked for where Ollama's is. */
const LOCAL_PORTS: Partial<Record<LlmProvider, number>> = { ollama: 11434, 'lm-studio': 1234, custom: 11434 };

const HOSTS: Readonly<Record<LlmProvider, readonly string[]>> = {
  claude: ['api.anthropic.com'],
  // Its token is checked by the first one and belongs to an account of the second.
  'claude-personal': ['api.anthropic.com', 'claude.ai'],
  codex: ['api.openai.com', 'chatgpt.com', 'auth.openai.com'],
  // Its login is not renewed in a guest, so nothing asks the host that does it.
  'codex-personal': ['chatgpt.com'],
  ollama: [],
  'lm-studio': [],
  custom: [],
};

/** What an agent needs to talk to its model. Null: the worker's choice, which is Claude. */
export function providerRules(llm: LlmPlan | null): readonly EgressRule[] {
  const at = endpointOf(llm);
  if (at === 'own')
    return HOSTS[llm?.provider ?? 'claude'].map((name) => ({ kind: 'host', name, ports: DEFAULT_PORTS }));
  return at === null || at.isLocal ? [] : [{ kind: 'host', name: at.host, ports: [at.port] }];
}

/** The model server on the worker's own host, where an agent uses one. */
export function providerServices(llm: LlmPlan | null): readonly EgressService[] {
  const at = endpointOf(llm);
  if (at === 'own' || at === null || !at.isLocal) return [];
  return [{ name: SERVICE_NAME, host: '127.0.0.1', port: at.port }];
}

/** The URL of a base URL as a program in the guest reaches it: the host's loopback is the service there. */
export function guestBaseUrl(baseUrl: string): string {
  const url = parseUrl(baseUrl);
  if (url === null || !HOST_NAMES.includes(url.host)) return baseUrl;
  return `${url.scheme}://${SERVICE_NAME}:${url.port}${url.rest}`;
}

/** Where a provider's server is in the guest, where nothing is said of it; null: on the internet. */
export function localBaseUrl(provider: LlmProvider): string | null {
  const port = LOCAL_PORTS[provider];
  return port === undefined ? null : `http://${SERVICE_NAME}:${port}`;
}

/** How a VM's door names the model's server. */
export type ModelTarget =
  | { readonly service: string; readonly port: number }
  | { readonly host: string; readonly port: number };

/** Null: the provider's own hosts, or no address that can be read. */
export function modelTarget(llm: LlmPlan | null): ModelTarget | null {
  const at = endpointOf(llm);
  if (at === 'own' || at === null) return null;
  return at.isLocal ? { service: SERVICE_NAME, port: at.port } : { host: at.host, port: at.port };
}

/** The model's server as the spec names it, or as its provider expects it; null: the provider's own. */
export function selectServer(llm: LlmPlan | null): string | null {
  if (llm === null) return null;
  if (llm.baseUrl !== null && llm.baseUrl !== '') return llm.baseUrl;
  const port = LOCAL_PORTS[llm.provider];
  return port === undefined ? null : `http://127.0.0.1:${port}`;
}

/** Words of a guest with the spec's address of the model's server instead of the guest's. */
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

/** `own`: the provider's hosts. Null: nobody knows. */
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

/** By hand, because this code also runs where there is no `URL`. */
function parseUrl(text: string): UrlParts | null {
  const match = /^(https?):\/\/(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?((?:[/?#].*)?)$/.exec(text);
  if (match === null) return null;
  const [, scheme = '', host = '', digits, rest = ''] = match;
  const port = digits === undefined ? (scheme === 'https' ? 443 : 80) : Number(digits);
  return port >= 1 && port <= 65_535 ? { scheme, host: host.toLowerCase(), port, rest } : null;
}
