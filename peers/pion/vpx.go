package main

/*
#cgo pkg-config: vpx
#include <stdlib.h>
#include <vpx/vp8cx.h>
#include <vpx/vp8dx.h>
#include <vpx/vpx_decoder.h>
#include <vpx/vpx_encoder.h>

// Go cannot call variadic functions or read unions.
static vpx_codec_err_t open_encoder(vpx_codec_ctx_t *codec, vpx_codec_enc_cfg_t *settings) {
	vpx_codec_err_t failed = vpx_codec_enc_init(codec, vpx_codec_vp8_cx(), settings, 0);
	if (!failed) failed = vpx_codec_control(codec, VP8E_SET_CPUUSED, -6);
	if (!failed) failed = vpx_codec_control(codec, VP8E_SET_STATIC_THRESHOLD, 1);
	return failed;
}

static vpx_codec_err_t open_decoder(vpx_codec_ctx_t *codec) {
	return vpx_codec_dec_init(codec, vpx_codec_vp8_dx(), NULL, 0);
}

static vpx_codec_err_t encode(vpx_codec_ctx_t *codec, unsigned char *samples, unsigned width, unsigned height,
	vpx_codec_pts_t at, vpx_enc_frame_flags_t flags, const void **frame, size_t *size) {
	vpx_image_t picture;
	vpx_codec_iter_t position = NULL;
	const vpx_codec_cx_pkt_t *packet;
	*size = 0;
	if (!vpx_img_wrap(&picture, VPX_IMG_FMT_I420, width, height, 1, samples)) return VPX_CODEC_INVALID_PARAM;
	vpx_codec_err_t failed = vpx_codec_encode(codec, &picture, at, 1, flags, VPX_DL_REALTIME);
	while (!failed && (packet = vpx_codec_get_cx_data(codec, &position))) {
		if (packet->kind != VPX_CODEC_CX_FRAME_PKT) continue;
		*frame = packet->data.frame.buf;
		*size = packet->data.frame.sz;
	}
	return failed;
}
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// encoder codes pictures with libvpx's VP8, at a rate that can change with each picture.
type encoder struct {
	codec    *C.vpx_codec_ctx_t
	settings *C.vpx_codec_enc_cfg_t
	pictures int64
}

// newEncoder has the settings of libvpx in libwebrtc, as `gstreamer_end.py` has them.
func newEncoder(form form, bps int) (*encoder, error) {
	settings := (*C.vpx_codec_enc_cfg_t)(C.calloc(1, C.sizeof_vpx_codec_enc_cfg_t))
	if failed := C.vpx_codec_enc_config_default(C.vpx_codec_vp8_cx(), settings, 0); failed != 0 {
		return nil, vpxError("prepare its encoder", failed)
	}
	settings.g_w, settings.g_h, settings.g_threads = C.uint(form.width), C.uint(form.height), 1
	settings.g_timebase.num, settings.g_timebase.den = C.int(form.denominator), C.int(form.numerator)
	settings.g_lag_in_frames = 0
	settings.rc_end_usage, settings.rc_target_bitrate = C.VPX_CBR, C.uint(max(1, bps/1000))
	settings.rc_min_quantizer, settings.rc_max_quantizer = 2, 56
	settings.rc_undershoot_pct, settings.rc_overshoot_pct = 100, 15
	settings.rc_buf_sz, settings.rc_buf_initial_sz, settings.rc_buf_optimal_sz = 1000, 500, 600
	settings.kf_max_dist = 3000
	codec := (*C.vpx_codec_ctx_t)(C.calloc(1, C.sizeof_vpx_codec_ctx_t))
	if failed := C.open_encoder(codec, settings); failed != 0 {
		return nil, vpxError("start its encoder", failed)
	}
	return &encoder{codec: codec, settings: settings}, nil
}

// encode codes a picture (I420) at this rate. The frame is empty if the encoder drops the picture.
func (e *encoder) encode(picture []byte, bps int, key bool) ([]byte, error) {
	if rate := C.uint(max(1, bps/1000)); rate != e.settings.rc_target_bitrate {
		e.settings.rc_target_bitrate = rate
		if failed := C.vpx_codec_enc_config_set(e.codec, e.settings); failed != 0 {
			return nil, vpxError("change its rate", failed)
		}
	}
	var flags C.vpx_enc_frame_flags_t
	if key {
		flags = C.VPX_EFLAG_FORCE_KF
	}
	var frame unsafe.Pointer
	var size C.size_t
	samples := (*C.uchar)(unsafe.Pointer(unsafe.SliceData(picture)))
	at := C.vpx_codec_pts_t(e.pictures)
	e.pictures++
	failed := C.encode(e.codec, samples, e.settings.g_w, e.settings.g_h, at, flags, &frame, &size)
	if failed != 0 {
		return nil, vpxError("encode", failed)
	}
	return C.GoBytes(frame, C.int(size)), nil
}

// decoder decodes VP8 with libvpx.
type decoder struct{ codec *C.vpx_codec_ctx_t }

func newDecoder() (*decoder, error) {
	codec := (*C.vpx_codec_ctx_t)(C.calloc(1, C.sizeof_vpx_codec_ctx_t))
	if failed := C.open_decoder(codec); failed != 0 {
		return nil, vpxError("start its decoder", failed)
	}
	return &decoder{codec}, nil
}

// decode returns the picture of a frame (I420 without padding), its width and its height.
func (d *decoder) decode(frame []byte) ([]byte, int, int, error) {
	data := (*C.uchar)(unsafe.Pointer(unsafe.SliceData(frame)))
	if failed := C.vpx_codec_decode(d.codec, data, C.uint(len(frame)), nil, 0); failed != 0 {
		return nil, 0, 0, vpxError("decode", failed)
	}
	var position C.vpx_codec_iter_t
	picture := C.vpx_codec_get_frame(d.codec, &position)
	if picture == nil {
		return nil, 0, 0, fmt.Errorf("libvpx cannot decode: a frame has no picture")
	}
	width, height := int(picture.d_w), int(picture.d_h)
	across, down := (width+1)/2, (height+1)/2
	samples := make([]byte, 0, width*height+2*across*down)
	for plane, size := range [][2]int{{width, height}, {across, down}, {across, down}} {
		stride := int(picture.stride[plane])
		rows := unsafe.Slice((*byte)(picture.planes[plane]), stride*(size[1]-1)+size[0])
		for row := range size[1] {
			samples = append(samples, rows[row*stride:row*stride+size[0]]...)
		}
	}
	return samples, width, height, nil
}

func vpxError(what string, failed C.vpx_codec_err_t) error {
	return fmt.Errorf("libvpx cannot %s: %s", what, C.GoString(C.vpx_codec_err_to_string(failed)))
}
