/**
 * Decides which requests a server accepts by their headers. A browser sends requests to any address for any page that
 * asks for them. A foreign page has a foreign `Origin`, and a page with a name that was made to resolve here (DNS
 * rebinding) has a foreign `Host`.
 */
export interface GuardedRequest {
  readonly method: string;
  /** As in the request line. */
  readonly target: string;
  readonly host: string | undefined;
  readonly origin: string | undefined;
  /** `Sec-Fetch-Site`, `Sec-Fetch-Mode`: browsers set them and pages cannot. */
  readonly fetchSite: string | undefined;
  readonly fetchMode: string | undefined;
}

export interface GuardRules {
  /** The values that `Host` may have. */
  readonly hosts: readonly string[];
  /** Lists the origins whose pages may send requests to a host. */
  readonly listOrigins: (host: string) => readonly string[];
  /** Whether a request that changes something names its `Origin`. */
  readonly needsOrigin: boolean;
  /** Whether a user may follow a link of another site to this target. */
  readonly isPage: (target: string) => boolean;
  /**
   * Whether the target is a page with `Referrer-Policy: no-referrer` and a form of its own. A browser sends such a form
   * with `Origin: null`. Absent: no target is.
   */
  readonly isForm?: (target: string) => boolean;
  /** Whether this target answers OPTIONS. The preflight of a browser names its `Origin`, and is refused by that. */
  readonly takesOptions?: (target: string) => boolean;
}

const READS = new Set(['GET', 'HEAD']);
const WRITES = new Set(['POST', 'PUT', 'PATCH', 'DELETE']);

/** Returns why the request is refused; null when it is not. */
export function findRefusal(request: GuardedRequest, rules: GuardRules): string | null {
  const { method, target, host, origin, fetchSite } = request;
  if (host === undefined || !rules.hosts.includes(host))
    return `the Host of a request here is ${rules.hosts.join(' or ')}`;
  if (!target.startsWith('/')) return 'the target of a request here is a path';
  const isWrite = WRITES.has(method);
  const isQuestion = method === 'OPTIONS' && rules.takesOptions?.(target) === true;
  if (!isWrite && !isQuestion && !READS.has(method)) return `${method} is not done here`;
  if (isWrite && rules.needsOrigin && origin === undefined) return 'a request that changes something names its Origin';
  if (origin !== undefined && !rules.listOrigins(host).includes(origin) && !isOwnForm(request, rules))
    return 'requests of other origins are refused';
  if (isTrusted(fetchSite) || isLinkToPage(request, rules)) return null;
  return 'requests of other sites are refused';
}

/** A page of another site has `Origin: null` too, in a sandbox, but its browser then names another site. */
function isOwnForm({ method, target, origin, fetchSite }: GuardedRequest, { isForm }: GuardRules): boolean {
  const isSame = fetchSite === undefined || fetchSite === 'same-origin';
  return method === 'POST' && origin === 'null' && isSame && isForm?.(target) === true;
}

function isTrusted(fetchSite: string | undefined): boolean {
  return fetchSite === undefined || fetchSite === 'same-origin' || fetchSite === 'none';
}

/** Whether a user follows a link to a page. The browser shows the page to the user; no other page can read it. */
function isLinkToPage({ method, target, fetchMode }: GuardedRequest, { isPage }: GuardRules): boolean {
  return method === 'GET' && fetchMode === 'navigate' && isPage(target);
}
