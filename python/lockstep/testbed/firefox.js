"use strict";
// Differences of Firefox from page.html: it has no camera that plays a file and no MediaStreamTrackProcessor. The camera
// is the capture of a <video> that plays the clip (lossless VP9), which is as exact. requestVideoFrameCallback reports
// each displayed picture, and its rtpTimestamp identifies the received frame.

let clip = null;

async function camera(options) {
  reading = options.reading;
  clip = document.createElement("video");
  clip.muted = clip.loop = true;
  clip.src = options.clip;
  await new Promise((resolve, reject) => {
    clip.oncanplaythrough = resolve;
    clip.onerror = () => reject(new Error(`cannot play the clip: ${clip.error.message}`));
  });
  const stream = clip.mozCaptureStream();
  // The clip starts when the ends have joined, so that none of it plays before.
  connection.addEventListener("connectionstatechange", () => connection.connectionState === "connected" && clip.play());
  const [track] = stream.getVideoTracks();
  return {stream, track};
}

// The browser gives whole pictures in RGB only. The page reads one sometimes, to verify that the pictures decoded after
// the call are those displayed.
async function readShown(video, row) {
  const frame = new VideoFrame(video);
  row.width = frame.codedWidth;
  row.height = frame.codedHeight;
  row.format = frame.format;
  try { await readBarcodes(frame, row); } finally { frame.close(); }
}

function read(track, readEvery) {
  const video = document.createElement("video");
  video.muted = true;
  video.srcObject = new MediaStream([track]);
  document.body.append(video);
  let lastRead = -Infinity;
  const onFrame = async (_, metadata) => {
    video.requestVideoFrameCallback(onFrame);
    const row = {at: now(), rtp: metadata.rtpTimestamp ?? null, width: metadata.width, height: metadata.height};
    rows.push(row);
    if (!readEvery || row.at - lastRead < readEvery) return;
    lastRead = row.at;
    const checked = {rtp: row.rtp, checked: true};
    try { await readShown(video, checked); } catch (error) { checked.error = String(error); }
    rows.push(checked);
  };
  video.requestVideoFrameCallback(onFrame);
  video.play();
}

// Playback position and decoded pictures of the clip, to verify that playback kept up.
const played = () => ({at: clip.currentTime, decoded: clip.getVideoPlaybackQuality().totalVideoFrames});

// The driver's scripts can call functions of the page only; arguments and results are text.
async function asked(name, words) {
  try { return JSON.stringify({value: await (0, eval)(name)(...JSON.parse(words))}); }
  catch (error) { return JSON.stringify({error: String(error)}); }
}
