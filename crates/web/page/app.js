// The page of a call: a lobby, the picture of the other end, and the controls.

import { join, ticketIn } from './lockstep.js';

const element = (id) => document.getElementById(id);
const KEPT = 'lockstep-ticket';
const TEXTS = {
  ticket: 'The link is damaged. Ask for a new one.',
  ticket_wrong: 'The other end waits with another link. Ask for a new one.',
  ticket_used: 'This link was used already. It is valid for one call: ask for a new one.',
  ticket_busy: 'The other end is in a call. Try again later.',
  other_version: 'The other end has another version of Lockstep. Update it, then reload this page.',
  no_webtransport:
    'This browser has no WebTransport, and this host has no WebSocket for it. ' +
    'Use a current Chrome, Edge, Firefox or Safari, or ask for a link to the command itself.',
  unanswered: 'Nobody answered. Check that the other end still waits, and that this network reaches it.',
  silent: 'The connection was lost.',
  connection: 'The connection broke.',
  peer_failed: 'The other end ended the call because it failed.',
  replaced: 'The call continues in another window.',
  unsupported: 'The other end sends what this browser cannot show. Reload the page to update it, or use another browser.',
};
const LIMITS = {
  link_estimate: 'path',
  deadline: 'frames in flight',
  delivered: 'delivery rate',
  silence: 'outage',
  short_queue: 'short queue',
  ceiling: 'highest bit rate',
  narrow_path: 'narrow path',
  sound: 'sound',
  messages: 'messages',
  parity: 'parity',
  coarsest_quantizer: 'coarsest quality',
  finest_quantizer: 'nothing: best quality',
};

let call = null;
let camera = null; // the stream of camera and microphone
let shared = null; // the stream of the screen
let isMuted = false;
let isCameraOff = false;
let figures = 0;

/** The ticket of the address, which leaves the address bar; a reload finds it in the session's storage. */
function takeTicket() {
  const found = ticketIn(location.hash);
  if (found) {
    sessionStorage.setItem(KEPT, found);
    history.replaceState(null, '', location.pathname + location.search);
  }
  return found || sessionStorage.getItem(KEPT) || '';
}

function say(text, isFailure = false) {
  element('status').textContent = text;
  element('notice').textContent = '';
  document.body.toggleAttribute('data-failed', isFailure);
}

function notice(text) {
  element('notice').textContent = text;
}

function size() {
  const [width, height] = element('size').value.split('x').map(Number);
  return { width, height };
}

async function openCamera() {
  const { width, height } = size();
  const chosen = (id) => (element(id).value ? { deviceId: { exact: element(id).value } } : {});
  const video = { width: { ideal: width }, height: { ideal: height }, frameRate: { ideal: 30 }, ...chosen('cameras') };
  const audio = { channelCount: 1, echoCancellation: true, noiseSuppression: true, autoGainControl: true, ...chosen('microphones') };
  try {
    return await navigator.mediaDevices.getUserMedia({ video, audio });
  } catch (error) {
    if (error.name === 'NotAllowedError') throw error;
    // One of the two may be missing.
    for (const only of [{ audio }, { video }]) {
      try {
        return await navigator.mediaDevices.getUserMedia(only);
      } catch {
        // The next one may be there.
      }
    }
    throw error;
  }
}

const cameraError = (error) =>
  error.name === 'NotAllowedError'
    ? 'The browser may not use camera and microphone. Allow it beside the address, or join without them.'
    : 'No camera and no microphone was found. Connect one, or join without them.';

function stop(stream) {
  for (const track of stream?.getTracks() ?? []) track.stop();
}

function show(id, stream) {
  const video = element(id);
  const hasPicture = Boolean(stream?.getVideoTracks().length);
  video.hidden = !hasPicture;
  video.srcObject = hasPicture ? stream : null;
  if (hasPicture) video.play().catch(() => {});
}

/** A canvas can be transferred once. */
function freshCanvas() {
  const old = element('video');
  const canvas = old.cloneNode();
  old.replaceWith(canvas);
  return canvas;
}

async function start(withCamera) {
  const ticket = ticketIn(element('ticket').value) || takeTicket();
  if (!ticket) {
    element('ticket-field').hidden = false;
    element('ticket').focus();
    return say('Enter the link that you received.', true);
  }
  sessionStorage.setItem(KEPT, ticket);
  for (const id of ['join', 'watch']) element(id).disabled = true;
  try {
    if (withCamera) {
      say('Waiting for camera and microphone…');
      try {
        camera = await openCamera();
      } catch (error) {
        return say(cameraError(error), true);
      }
      show('preview', camera);
    }
    say('Joining…');
    const transport = new URLSearchParams(location.search).get('transport') ?? 'auto';
    call = await join(ticket, { video: freshCanvas(), transport, ...size() });
    window.lockstepCall = call; // for the console and for tests
    began();
  } catch (error) {
    stop(camera);
    camera = null;
    show('preview', null);
    if (error.code?.startsWith('ticket')) element('ticket-field').hidden = false;
    say(TEXTS[error.code] ?? `The call failed: ${error.message}`, true);
  } finally {
    for (const id of ['join', 'watch']) element(id).disabled = false;
  }
}

function began() {
  const sends = call.kind !== 'watch';
  if (!sends) {
    stop(camera);
    camera = null;
  }
  show('preview', null);
  element('lobby').hidden = true;
  element('call').hidden = false;
  document.body.dataset.state = 'call';
  for (const id of ['mute', 'camera', 'screen', 'devices']) element(id).hidden = !sends;
  say('');
  notice(call.kind === 'send' ? 'The other end sees you.' : 'Connected.');
  isMuted = isCameraOff = false;
  call.addEventListener('presence', ({ detail }) => {
    const off = [detail.muted && 'muted', detail.cameraOff && 'has the camera off',
      detail.recording && 'recording this call'].filter(Boolean);
    notice(off.length ? `The other end is ${off.join(' and ')}.`.replace('is has', 'has') : '');
  });
  element('transport').hidden = call.transport !== 'websocket';
  call.addEventListener('size', () => notice(''), { once: true });
  call.addEventListener('interrupted', () => notice('The connection is interrupted…'));
  call.addEventListener('resumed', () => notice(''));
  call.ended.then(over);
  sendSources();
  listDevices();
  element('leave').focus();
}

/** Sends the screen or the camera, with the microphone. */
function sendSources() {
  if (!call || call.kind === 'watch') return;
  const tracks = [...(shared ?? camera)?.getVideoTracks() ?? [], ...camera?.getAudioTracks() ?? []];
  show('self', camera || shared ? new MediaStream(tracks.filter((track) => track.kind === 'video')) : null);
  element('self').classList.toggle('mirrored', !shared);
  call.send(tracks.length ? new MediaStream(tracks) : null, shared ? { width: 1280, height: 720 } : size());
  // Without a camera, a still picture is not the path's fault.
  isCameraOff = isCameraOff || !tracks.some((track) => track.kind === 'video');
  isMuted = isMuted || !tracks.some((track) => track.kind === 'audio');
  presence();
}

function presence() {
  for (const track of camera?.getAudioTracks() ?? []) track.enabled = !isMuted;
  for (const track of camera?.getVideoTracks() ?? []) track.enabled = !isCameraOff;
  call?.setPresence({ muted: isMuted, cameraOff: isCameraOff && !shared });
  element('mute').toggleAttribute('data-active', isMuted);
  element('mute').textContent = isMuted ? 'Unmute' : 'Mute';
  element('camera').toggleAttribute('data-active', isCameraOff);
  element('camera').textContent = isCameraOff ? 'Camera on' : 'Camera off';
  element('screen').toggleAttribute('data-active', Boolean(shared));
  element('screen').textContent = shared ? 'Stop sharing' : 'Share screen';
}

async function needCamera() {
  if (camera) return true;
  try {
    camera = await openCamera();
    listDevices();
    return true;
  } catch (error) {
    notice(cameraError(error));
    return false;
  }
}

async function toggleMute() {
  if (isMuted && !camera?.getAudioTracks().length && !(await needCamera())) return;
  isMuted = !isMuted;
  sendSources();
}

async function toggleCamera() {
  if (isCameraOff && !camera?.getVideoTracks().length && !(await needCamera())) return;
  isCameraOff = !isCameraOff;
  sendSources();
}

async function toggleScreen() {
  if (shared) {
    stop(shared);
    shared = null;
  } else {
    try {
      shared = await navigator.mediaDevices.getDisplayMedia({ video: { frameRate: { ideal: 30 } } });
    } catch {
      return; // The user chose none.
    }
    shared.getVideoTracks()[0].contentHint = 'text';
    shared.getVideoTracks()[0].onended = () => {
      shared = null;
      sendSources();
    };
  }
  sendSources();
}

async function listDevices() {
  const devices = (await navigator.mediaDevices?.enumerateDevices().catch(() => [])) ?? [];
  for (const [id, kind] of [
    ['cameras', 'videoinput'],
    ['microphones', 'audioinput'],
  ]) {
    const track = camera?.getTracks().find(({ kind: of }) => kind.startsWith(of));
    const current = track?.getSettings().deviceId;
    element(id).replaceChildren(
      ...devices
        .filter((device) => device.kind === kind && device.deviceId)
        .map((device, place) => new Option(device.label || `${kind} ${place + 1}`, device.deviceId, false, device.deviceId === current)),
    );
  }
}

async function changeDevices() {
  const before = camera;
  try {
    camera = await openCamera();
    stop(before);
  } catch (error) {
    notice(cameraError(error));
  }
  sendSources();
}

function over(error) {
  stop(camera);
  stop(shared);
  camera = shared = call = null;
  clearInterval(figures);
  if (document.fullscreenElement) document.exitFullscreen();
  element('call').hidden = true;
  element('lobby').hidden = false;
  document.body.dataset.state = 'lobby';
  element('join').textContent = 'Join again';
  say(error ? (TEXTS[error.code] ?? `The call failed: ${error.message}`) : 'The call is over.', Boolean(error));
  element('join').focus();
}

const rate = (bits) => (bits >= 1e6 ? `${(bits / 1e6).toFixed(2)} Mb/s` : `${Math.round(bits / 1e3)} kb/s`);
const time = (milliseconds) => (milliseconds === null ? '–' : `${Math.round(milliseconds)} ms`);

/** Rows of the statistics, from two readings one second apart. */
function rows(last, current, seconds) {
  const { counters } = current;
  const per = (name) => (counters[name] - last.counters[name]) / seconds;
  const [sending] = current.sending;
  const [receiving] = current.receiving;
  const table = [];
  if (receiving) {
    table.push(
      ['Received', receiving.width ? `${receiving.width}×${receiving.height}` : '–'],
      ['Pictures shown', `${per('shown').toFixed(0)} per s`],
      ['Delay of pictures', time(counters.age)],
      ['Rate received', rate(8 * per('receivedBytes'))],
      ['Packets lost', String(receiving.missing)],
    );
  }
  if (sending) {
    table.push(
      ['Sent', `${sending.width}×${sending.height}`],
      ['Pictures sent', `${((sending.frames - last.sending[0].frames) / seconds).toFixed(0)} per s`],
      ['Rate sent', rate(8 * per('sentBytes'))],
      ['Target', rate(sending.target)],
      ['Limited by', LIMITS[sending.limitedBy] ?? '–'],
    );
  }
  table.push(
    ['Transport', current.transport === 'websocket' ? 'WebSocket' : 'WebTransport'],
    ['Round trip', time(current.roundTrip)],
    ['Delay of sound', time(current.sound.delay)],
    ['Sound concealed', `${(100 * current.sound.concealedShare).toFixed(1)} %`],
    ['Coding', `${((100 * per('busy')) / 1e3).toFixed(0)} % of a core`],
  );
  return table;
}

async function toggleFigures() {
  const isShown = element('statistics').hidden;
  element('statistics').hidden = !isShown;
  element('figures').setAttribute('aria-pressed', isShown);
  clearInterval(figures);
  if (!isShown) return;
  let last = await call?.statistics();
  let at = performance.now();
  const update = async () => {
    const current = await call?.statistics();
    const now = performance.now();
    if (!current || !last) return (last = current);
    element('statistics').replaceChildren(
      ...rows(last, current, (now - at) / 1e3).flatMap(([name, value]) => {
        const [term, description] = [document.createElement('dt'), document.createElement('dd')];
        [term.textContent, description.textContent] = [name, value];
        return [term, description];
      }),
    );
    [last, at] = [current, now];
  };
  figures = setInterval(update, 1000);
}

function toggleFull() {
  if (document.fullscreenElement) document.exitFullscreen();
  else element('call').requestFullscreen?.().catch(() => {});
}

function toggleDevices() {
  const isShown = element('choice').hidden;
  element('choice').hidden = !isShown;
  element('devices').setAttribute('aria-expanded', isShown);
}

const actions = {
  mute: toggleMute,
  camera: toggleCamera,
  screen: toggleScreen,
  devices: toggleDevices,
  full: toggleFull,
  figures: toggleFigures,
  leave: () => call?.close(),
};
for (const [id, act] of Object.entries(actions)) element(id).addEventListener('click', act);
for (const id of ['cameras', 'microphones', 'size']) element(id).addEventListener('change', changeDevices);
const KEYS = { m: 'mute', v: 'camera', s: 'screen', f: 'full', i: 'figures' };
document.addEventListener('keydown', (event) => {
  const id = KEYS[event.key.toLowerCase()];
  const isTyping = /INPUT|SELECT|TEXTAREA/.test(event.target.tagName);
  if (!call || !id || isTyping || event.ctrlKey || event.metaKey || event.altKey || element(id).hidden) return;
  actions[id]();
});
element('form').addEventListener('submit', (event) => {
  event.preventDefault();
  start(true);
});
element('watch').addEventListener('click', () => start(false));
window.addEventListener('hashchange', () => takeTicket() && !call && say('Ready to join.'));

if (takeTicket()) {
  say('Ready to join.');
} else {
  element('ticket-field').hidden = false;
  say('Enter the link that you received.');
}
