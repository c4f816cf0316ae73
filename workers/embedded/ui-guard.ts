/**
 * Decides which requests the proxy of the Temporal UI accepts. A browser sends requests to loopback for any page that
 * asks for them. A foreign page has a foreign `Origin`, and a page with a name that was made to resolve here (DNS
 * rebinding) has a foreign `Host`.
 */
export interface DoorRequest {
  readonly method: string;
  /** As in the request line. */
  readonly target: string;
  readonly host: string | undefined;
  readonly origin: string | undefined;
  /** `Sec-Fetch-Site`, `Sec-Fetch-Mode`: browsers set them and pages cannot. */
  readonly fetchSite: string | undefined;
  readonly fetchMode: string | undefined;
}

const API = '/api/';
const READS = new Set(['GET', 'HEAD']);
const WRITES = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);

/** Why the request is refused; null when it is not. */
export function refusal(request: DoorRequest, port: number): string | null {
  const names = [`127.0.0.1:${port}`, `localhost:${port}`];
  if (request.host === undefined || !names.includes(request.host))
    return `the Host of a request here is ${names.join(' or ')}`;
  if (!request.target.startsWith('/')) return 'the target of a request here is a path';
  const isWrite = WRITES.has(request.method);
  if (!isWrite && !READS.has(request.method)) return `${request.method} is not done here`;
  // Browsers send an Origin with each write; other clients can use the server's own port.
  if (isWrite && request.origin === undefined) return 'a request that changes something names its Origin';
  if (request.origin !== undefined && request.origin !== `http://${request.host}`)
    return 'requests of other origins are refused';
  if (isTrusted(request.fetchSite) || isLinkToPage(request)) return null;
  return 'requests of other sites are refused';
}

function isTrusted(fetchSite: string | undefined): boolean {
  return fetchSite === undefined || fetchSite === 'same-origin' || fetchSite === 'none';
}

/**
 * Whether a user follows a link to a page of the UI. The browser shows the page to the user; no other page can read it.
 */
function isLinkToPage({ method, target, fetchMode }: DoorRequest): boolean {
  return method === 'GET' && fetchMode === 'navigate' && !isApi(target);
}

/** Whether the path is one of the API. All other paths are pages of the UI, which contain no data. */
export function isApi(target: string): boolean {
  return target.startsWith(API);
}
